//===- ExportedDerivatives.cpp - torch.autograd.grad in the forward of a .pt2 file ----===//
//
// tools/python/fsdpc/derivatives.py makes the two operators.
//
//===----------------------------------------------------------------------===//

#include "ExportedArguments.h"
#include "ExportedGraph.h"

#include "llvm/ADT/STLExtras.h"

#include <torch/csrc/autograd/autograd.h>

using namespace fsdp::frontend;
using c10::IValue;

bool fsdp::frontend::hasDerivatives(const schema::Graph &graph) {
  return llvm::any_of(graph.get_nodes(), [](const schema::Node &node) {
    return llvm::StringRef(node.get_target()).ends_with(".derivatives") ||
           llvm::any_of(node.get_inputs(), [](const schema::NamedArgument &argument) {
             return argument.get_arg().tag() == schema::Argument::Tag::AS_GRAPH &&
                    hasDerivatives(*argument.get_arg().get_as_graph().get_graph());
           });
  });
}

static const schema::Argument &findArgument(const schema::Node &node, const std::string &name) {
  for (const schema::NamedArgument &argument : node.get_inputs())
    if (argument.get_name() == name)
      return argument.get_arg();
  throw CaptureError("it has no argument '" + name + "'");
}

std::vector<IValue> ExportedGraph::callDerivatives(const schema::Node &node,
                                                   const Values &values) {
  auto tensors = [&](const char *name) {
    return convertExportedArgument(findArgument(node, name), c10::ListType::ofTensors(), values)
        .toTensorVector();
  };
  // The graph is kept: the loss may depend on it in other ways, too.
  std::vector<at::Tensor> derivatives =
      torch::autograd::grad(tensors("outputs"), tensors("inputs"), tensors("gradients"),
                            /*retain_graph=*/true,
                            /*create_graph=*/findArgument(node, "create_graph").get_as_bool());
  return {std::make_move_iterator(derivatives.begin()),
          std::make_move_iterator(derivatives.end())};
}

IValue ExportedGraph::requireGradient(const schema::Node &node, const Values &values) {
  at::Tensor tensor =
      convertExportedArgument(findArgument(node, "tensor"), c10::TensorType::get(), values)
          .toTensor();
  return tensor.requires_grad_(true);
}
