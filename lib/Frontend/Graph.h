//===- Graph.h - A recorded training step ------------------------*- C++ -*-===//
//
// The output of the recorder: the tensors of the step as numbered values, and the operator calls
// that compute them, in program order. Tensors are on the meta device: sizes and strides, no data.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_FRONTEND_GRAPH_H
#define FSDP_LIB_FRONTEND_GRAPH_H

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace fsdp::frontend {

/// The reason why a model cannot be captured, one line for the user. Thrown inside the frontend
/// only; captureStep turns it into an llvm::Error.
struct CaptureError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The origin of an operator call in the model.
struct Place {
  std::string module; // qualified name, "" is the root
  /// The call number of each module on the path, per component of the name; empty if all are 0.
  std::vector<int64_t> calls = {};
  std::string file;   // empty if unknown
  unsigned line = 0, column = 0;
};

enum class ValueKind { Result, Parameter, Buffer, Input, Constant };

struct GraphValue {
  at::Tensor tensor; // keeps its address, the key of `ids`, from being reused
  ValueKind kind = ValueKind::Result;
  std::string name = {}; // of a parameter, buffer or input; of a constant, if it has one
  at::Tensor data = {};  // of a constant
};

struct GraphNode {
  c10::OperatorHandle op;
  std::vector<c10::IValue> arguments; // one per argument of the schema
  std::vector<c10::IValue> results;   // one per return value of the schema
  bool isBackward = false;
  int place = 0;
};

struct Graph {
  std::vector<GraphValue> values;
  std::vector<GraphNode> nodes;
  std::vector<Place> places = {Place()};

  /// The index of this tensor's value, or -1.
  int find(const at::Tensor &tensor) const {
    auto found = ids.find(tensor.unsafeGetTensorImpl());
    return found == ids.end() ? -1 : found->second;
  }

  /// Adds a value, which must be new.
  int add(GraphValue value) {
    int id = static_cast<int>(values.size());
    ids.emplace(value.tensor.unsafeGetTensorImpl(), id);
    values.push_back(std::move(value));
    return id;
  }

private:
  std::unordered_map<const at::TensorImpl *, int> ids;
};

/// Calls `visit` for each defined tensor in `value`, lists included, in order.
template <typename Visitor> void forEachTensor(const c10::IValue &value, Visitor &&visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined())
      visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor &tensor : value.toTensorList())
      visit(tensor);
  } else if (value.isList()) {
    for (const c10::IValue &element : value.toListRef())
      forEachTensor(element, visit);
  }
}

/// `module 'layers.0' at model.py:12`, or `the root module`.
std::string describePlace(const Place &place, bool isBackward = false);

/// The first line of a torch error, without its backtrace.
std::string summarizeError(const std::exception &exception);

/// `mm.default` for aten::mm; other namespaces are kept: `ns::op.overload`.
std::string getCalleeName(const c10::OperatorHandle &op);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_GRAPH_H
