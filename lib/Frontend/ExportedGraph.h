//===- ExportedGraph.h - Runs the graphs of a .pt2 file ----------*- C++ -*-===//
//
// A graph of torch.export is a list of operator calls from before autograd, with module paths and
// stack traces. It is interpreted node by node under the recorder. Higher-order operators contain
// graphs, which are interpreted as well.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_FRONTEND_EXPORTEDGRAPH_H
#define FSDP_LIB_FRONTEND_EXPORTEDGRAPH_H

#include "Autocast.h"
#include "Recorder.h"
#include "fsdp/Frontend/Capture.h"

#include <torch/csrc/utils/generated_serialization_types.h>

#include <unordered_map>

namespace fsdp::frontend {

/// torch's schema of .pt2 files.
namespace schema = torch::_export;

at::ScalarType convertDtype(schema::ScalarType dtype);
/// Converts static sizes; throws CaptureError for others.
std::vector<int64_t> convertSizes(const std::vector<schema::SymInt> &sizes);
int64_t convertSize(const schema::SymInt &size);

/// The graph that is an argument of a higher-order operator; throws CaptureError for others.
const schema::Graph &getGraph(const schema::Node &node, size_t position);

/// True if the graph, or one inside of it, takes derivatives.
bool hasDerivatives(const schema::Graph &graph);

class ExportedGraph {
public:
  using Values = std::unordered_map<std::string, c10::IValue>;

  ExportedGraph(Recorder &recorder, Target target) : recorder(recorder), autocast(target) {}

  /// Runs the nodes; `values` holds the graph's inputs by name. Returns the graph's outputs.
  std::vector<c10::IValue> run(const schema::Graph &graph, Values values);

  /// The loss, which depends on the checks of the batch, so that they are part of the step. Its
  /// bits are the same.
  at::Tensor addChecks(const at::Tensor &loss) const;

  /// The place (index into Graph::places) of the current node.
  int getPlace() const { return place; }

private:
  void call(const schema::Node &node, Values &values);
  std::vector<c10::IValue> callOperator(const schema::Node &node, const Values &values);
  std::vector<c10::IValue> callHigherOrder(const schema::Node &node, const Values &values);
  /// Runs the graph that is argument `position`, with the arguments after it as inputs.
  std::vector<c10::IValue> enter(const schema::Node &node, size_t position, const Values &values);
  /// A torch.autograd.Function of the model: its first argument is the graph of the forward, its
  /// second one that of the backward (tools/python/fsdpc/functions.py).
  std::vector<c10::IValue> callFunction(const schema::Node &node, const Values &values);
  /// Derivatives of outputs by inputs, which later operators may differentiate again.
  std::vector<c10::IValue> callDerivatives(const schema::Node &node, const Values &values);
  /// The tensor, which autograd follows from here on.
  c10::IValue requireGradient(const schema::Node &node, const Values &values);
  /// A check of the batch: an assertion with a message (tools/python/fsdpc/specialization.py).
  void addCheck(const schema::Node &node, const Values &values);
  int addPlace(const schema::Node &node);
  /// Replaces a `view` that is impossible on this target: results of its fused operators may have
  /// other strides than on the device of the export.
  c10::IValue copyReshaped(const std::vector<c10::IValue> &arguments);
  /// Throws if an in-place operator writes to such a copy, or to a view of one.
  void checkWrites(const c10::OperatorHandle &op, const std::vector<c10::IValue> &arguments) const;

  Recorder &recorder;
  Autocast autocast;
  int place = 0;
  std::vector<c10::Storage> copies; // of copyReshaped
  at::Tensor checked;               // zero, computed by all checks; undefined: there are none
};

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_EXPORTEDGRAPH_H
