//===- OperatorFacts.h - What operators return on a machine ------*- C++ -*-===//
//
// A capture runs operators on meta tensors, and a machine's kernels may return other dtypes or
// strides. A training binary writes what it finds (--operator-report), and a capture reads it back
// (--operator-facts). Compiler and runtime share this file, so that both name a call alike.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_FRONTEND_OPERATORFACTS_H
#define FSDP_FRONTEND_OPERATORFACTS_H

#include <ATen/core/TensorBase.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <map>
#include <span>
#include <string>
#include <vector>

namespace fsdp {

/// How a result of a call lies in memory.
struct OperatorFact {
  std::string call; // describeCall()
  unsigned result;  // by its place in the schema, or in the list that is returned
  at::ScalarType dtype;
  std::vector<int64_t> sizes, strides; // in elements
};

/// An operator with all arguments of its schema: of tensors dtype, sizes and strides, as in
/// "aten::mm.default(float32[2,3]{3,1}, float32[3,4]{4,1})". The stride of a dimension of size 1
/// says nothing and is written as *, a device is only named as one.
std::string describeCall(const c10::OperatorHandle &op, std::span<const c10::IValue> arguments);

/// A JSON object in one line, without its end.
std::string toJsonLine(const OperatorFact &fact);

/// The facts of files, by call and result.
class OperatorFacts {
public:
  /// Adds those of a file: its lines of kind "result". Of two facts of one result the last counts.
  /// Returns what is wrong with which line; "" if nothing is.
  std::string load(const std::string &path);

  /// The facts of a call's results, by their places; null if there is none.
  const std::map<unsigned, OperatorFact> *lookup(const std::string &call) const;

  bool isEmpty() const { return byCall.empty(); }
  const std::map<std::string, std::map<unsigned, OperatorFact>> &getAll() const { return byCall; }

private:
  std::map<std::string, std::map<unsigned, OperatorFact>> byCall;
};

} // namespace fsdp

#endif // FSDP_FRONTEND_OPERATORFACTS_H
