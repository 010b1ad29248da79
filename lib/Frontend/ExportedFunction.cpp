//===- ExportedFunction.cpp - A torch.autograd.Function of a .pt2 file ----===//

#include "ExportedArguments.h"
#include "ExportedGraph.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

using namespace fsdp::frontend;
using c10::IValue;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {
/// One call of a Function. Interpreter and graphs belong to the program, which outlives the step.
struct Call : torch::CustomClassHolder {
  Call(ExportedGraph &interpreter, const schema::Node &node, const ExportedGraph::Values &values);

  variable_list run(const schema::Graph &graph, at::TensorList tensors) const;

  ExportedGraph &interpreter;
  const schema::Graph &forward;  // from operands to outputs and tensors saved for the backward
  const schema::Graph &backward; // from gradients of the outputs, and saved tensors, to gradients
  variable_list operands;
  c10::List<bool> isDifferentiable; // for each output
};

/// Torch's own autograd node of a Function. So gradients that are missing are zeros, and gradients
/// that nobody needs are dropped, as in eager training.
struct Function : torch::autograd::Function<Function> {
  static variable_list forward(AutogradContext *context, c10::intrusive_ptr<Call> call,
                               at::TensorList operands);
  static variable_list backward(AutogradContext *context, variable_list gradients);
};
} // namespace

static const char *const callKey = "call";

Call::Call(ExportedGraph &interpreter, const schema::Node &node,
           const ExportedGraph::Values &values)
    : interpreter(interpreter), forward(getGraph(node, 0)), backward(getGraph(node, 1)) {
  for (const schema::NamedArgument &argument : node.get_inputs()) {
    if (argument.get_name() == "differentiable")
      isDifferentiable =
          convertExportedArgument(argument.get_arg(), c10::ListType::ofBools(), values)
              .toBoolList();
    else if (argument.get_arg().tag() == schema::Argument::Tag::AS_TENSOR)
      operands.push_back(
          convertExportedArgument(argument.get_arg(), c10::TensorType::get(), values).toTensor());
  }
}

variable_list Call::run(const schema::Graph &graph, at::TensorList tensors) const {
  if (graph.get_inputs().size() != tensors.size())
    throw CaptureError("its graph has " + std::to_string(graph.get_inputs().size()) +
                       " inputs, the call gives " + std::to_string(tensors.size()));
  ExportedGraph::Values values;
  for (size_t i = 0; i < tensors.size(); ++i)
    values[graph.get_inputs()[i].get_as_tensor().get_name()] = tensors[i];
  variable_list results;
  for (const IValue &result : interpreter.run(graph, std::move(values)))
    results.push_back(result.isNone() ? at::Tensor() : result.toTensor());
  return results;
}

variable_list Function::forward(AutogradContext *context, c10::intrusive_ptr<Call> call,
                                at::TensorList operands) {
  variable_list outputs = call->run(call->forward, operands);
  const size_t numOutputs = call->isDifferentiable.size();
  if (outputs.size() < numOutputs)
    throw CaptureError("its forward has " + std::to_string(outputs.size()) + " results, expected " +
                       std::to_string(numOutputs) + " or more");
  context->save_for_backward({outputs.begin() + numOutputs, outputs.end()});
  outputs.resize(numOutputs);
  variable_list constants;
  for (size_t i = 0; i < numOutputs; ++i)
    if (!call->isDifferentiable.get(i))
      constants.push_back(outputs[i]);
  context->mark_non_differentiable(constants);
  context->saved_data[callKey] = IValue::make_capsule(std::move(call));
  return outputs;
}

variable_list Function::backward(AutogradContext *context, variable_list gradients) {
  variable_list tensors = std::move(gradients);
  for (at::Tensor &saved : context->get_saved_variables())
    tensors.push_back(std::move(saved));
  auto call = c10::static_intrusive_pointer_cast<Call>(context->saved_data[callKey].toCapsule());
  variable_list results = call->run(call->backward, tensors);
  results.insert(results.begin(), at::Tensor()); // of the argument `call`
  return results;
}

std::vector<IValue> ExportedGraph::callFunction(const schema::Node &node, const Values &values) {
  auto call = c10::make_intrusive<Call>(*this, node, values);
  const variable_list operands = std::move(call->operands);
  variable_list outputs = Function::apply(call, at::TensorList(operands));
  return {std::make_move_iterator(outputs.begin()), std::make_move_iterator(outputs.end())};
}
