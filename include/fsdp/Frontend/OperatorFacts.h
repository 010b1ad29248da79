//===- OperatorFacts.h - Results of operators on a machine ------*- C++ -*-===//
//
// A capture runs operators on meta tensors. The kernels of a machine may return other dtypes or
// strides. A training binary records them (--operator-report), and a capture reads the records
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

/// The dtype, sizes and strides of a call's result.
struct OperatorFact {
  std::string call; // describeCall()
  unsigned result;  // index in the schema, or in the returned list
  at::ScalarType dtype;
  std::vector<int64_t> sizes, strides; // in elements
};

/// An operator with all arguments of its schema, tensors as dtype, sizes and strides:
/// "aten::mm.default(float32[2,3]{3,1}, float32[3,4]{4,1})". Strides of dimensions of size 1 are
/// arbitrary and written as *; devices are written without their kind.
std::string describeCall(const c10::OperatorHandle &op, std::span<const c10::IValue> arguments);

/// A JSON object on one line, without the newline.
std::string toJsonLine(const OperatorFact &fact);

/// The facts of some files, by call and result.
class OperatorFacts {
public:
  /// Adds the facts of a file: its lines of kind "result". A later fact replaces an earlier one of
  /// the same result. Returns the error with its line; "" for success.
  std::string load(const std::string &path);

  /// The facts of a call's results, by index; null if there is none.
  const std::map<unsigned, OperatorFact> *lookup(const std::string &call) const;

  bool isEmpty() const { return byCall.empty(); }
  const std::map<std::string, std::map<unsigned, OperatorFact>> &getAll() const { return byCall; }

private:
  std::map<std::string, std::map<unsigned, OperatorFact>> byCall;
};

} // namespace fsdp

#endif // FSDP_FRONTEND_OPERATORFACTS_H
