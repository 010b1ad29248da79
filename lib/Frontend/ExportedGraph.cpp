//===- ExportedGraph.cpp - Runs the graphs of a .pt2 file -----------------===//

#include "ExportedGraph.h"

#include "ExportedArguments.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <ATen/Functions.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <c10/core/GradMode.h>

#include <set>

using namespace fsdp::frontend;
using c10::IValue;

//===----------------------------------------------------------------------===//
// Origins of calls
//===----------------------------------------------------------------------===//

/// Sets file and line from the last frame outside of torch's own modules and generated code, or
/// from the last frame if there is none.
static void findUserLine(const std::string &trace, Place &place) {
  for (size_t file = trace.find("File \""); file != std::string::npos;
       file = trace.find("File \"", file + 1)) {
    size_t begin = file + 6, end = trace.find('"', begin), line = trace.find("line ", end);
    if (end == std::string::npos || line == std::string::npos)
      return;
    std::string name = trace.substr(begin, end - begin);
    bool isGenerated = name[0] == '<';
    if (isGenerated || (!place.file.empty() && name.find("/torch/") != std::string::npos))
      continue;
    place.file = name;
    place.line = static_cast<unsigned>(std::strtoul(trace.c_str() + line + 5, nullptr, 10));
    place.column = 1;
  }
}

static std::string getMetadata(const schema::Node &node, const char *key) {
  auto found = node.get_metadata().find(key);
  return found == node.get_metadata().end() ? std::string() : found->second;
}

/// Parses `key,path,type;…`, outermost first; the key of a module's second call ends in `@1`.
static void findModule(llvm::StringRef stack, Place &place) {
  std::vector<std::pair<llvm::StringRef, int64_t>> modules;
  for (llvm::StringRef entry : llvm::split(stack, ';')) {
    auto [key, rest] = entry.split(',');
    int64_t call = 0;
    if (key.rsplit('@').second.getAsInteger(10, call))
      call = 0;
    modules.push_back({rest.split(',').first.split('@').first, call});
  }
  llvm::StringRef path = modules.back().first;
  place.module = path.str();
  if (path.empty() || llvm::all_of(modules, [](auto &module) { return module.second == 0; }))
    return;
  place.calls.resize(path.count('.') + 1);
  for (auto [outer, call] : modules)
    if (!outer.empty() && (path == outer || path.starts_with((outer + ".").str())))
      place.calls[outer.count('.')] = call;
}

/// `nn_module_stack` has the modules, `stack_trace` is a Python traceback.
int ExportedGraph::addPlace(const schema::Node &node) {
  Place added;
  findModule(getMetadata(node, "nn_module_stack"), added);
  findUserLine(getMetadata(node, "stack_trace"), added);
  std::vector<Place> &places = recorder.graph.places;
  places.push_back(std::move(added));
  return static_cast<int>(places.size()) - 1;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// True if `view` of these arguments is possible with the tensor's strides.
static bool canView(const std::vector<IValue> &arguments) {
  const at::Tensor self = arguments[0].toTensor();
  const at::DimVector shape =
      at::infer_size_dv(arguments[1].toIntVector(), static_cast<int64_t>(self.numel()));
  return at::detail::computeStride(self.sizes(), self.strides(), shape).has_value();
}

IValue ExportedGraph::copyReshaped(const std::vector<IValue> &arguments) {
  at::Tensor copy = at::reshape(arguments[0].toTensor(), arguments[1].toIntVector());
  copies.push_back(copy.storage());
  return copy;
}

void ExportedGraph::checkWrites(const c10::OperatorHandle &op,
                                const std::vector<IValue> &arguments) const {
  const std::vector<c10::Argument> &formals = op.schema().arguments();
  for (size_t i = 0; i < formals.size(); ++i) {
    const c10::AliasInfo *alias = formals[i].alias_info();
    if (!alias || !alias->isWrite() || !arguments[i].isTensor())
      continue;
    const at::Tensor &tensor = arguments[i].toTensor();
    if (tensor.defined() && std::ranges::any_of(copies, [&](const c10::Storage &copy) {
          return copy.is_alias_of(tensor.storage());
        }))
      throw CaptureError("it writes to a view that does not exist on the target, whose operators "
                         "have results of other strides");
  }
}

/// As torch computes with a Python complex number: in the precision of the tensors beside it.
static at::ScalarType getComplexParts(const schema::Node &node,
                                      const ExportedGraph::Values &values) {
  for (const schema::NamedArgument &input : node.get_inputs()) {
    if (input.get_arg().tag() != schema::Argument::Tag::AS_TENSOR)
      continue;
    auto found = values.find(input.get_arg().get_as_tensor().get_name());
    if (found != values.end() && found->second.isTensor() &&
        c10::toRealValueType(found->second.toTensor().scalar_type()) == at::kDouble)
      return at::kDouble;
  }
  return at::kFloat;
}

std::vector<IValue> ExportedGraph::callOperator(const schema::Node &node, const Values &values) {
  const std::string &target = node.get_target(), prefix = "torch.ops.";
  size_t space = prefix.size(), name = target.find('.', space), overload = target.rfind('.');
  if (target.rfind(prefix, 0) != 0 || name == std::string::npos || overload <= name)
    throw CaptureError("only calls of torch.ops are supported");
  std::string qualified =
      target.substr(space, name - space) + "::" + target.substr(name + 1, overload - name - 1);
  std::string overloadName = target.substr(overload + 1);
  auto op = c10::Dispatcher::singleton().findSchema(
      {qualified, overloadName == "default" ? "" : overloadName});
  if (!op)
    throw CaptureError(qualified.starts_with("aten::")
                           ? "it is unknown to this version of torch"
                           : "torch does not have it: name the library that does by "
                             "--load-library");
  const at::ScalarType complexParts = getComplexParts(node, values);
  torch::jit::Stack stack;
  for (const c10::Argument &formal : op->schema().arguments()) {
    const schema::Argument *given = nullptr;
    for (const schema::NamedArgument &input : node.get_inputs())
      if (input.get_name() == formal.name())
        given = &input.get_arg();
    if (given)
      stack.push_back(convertExportedArgument(*given, formal.real_type(), values, complexParts));
    else
      stack.push_back(formal.default_value().value_or(IValue()));
  }
  if (op->schema().is_mutable())
    checkWrites(*op, stack);
  if (qualified == "aten::view" && overloadName == "default" && !canView(stack))
    return {copyReshaped(stack)};
  op->callBoxed(&stack);
  return stack;
}

const schema::Graph &fsdp::frontend::getGraph(const schema::Node &node, size_t position) {
  const std::vector<schema::NamedArgument> &arguments = node.get_inputs();
  if (arguments.size() <= position ||
      arguments[position].get_arg().tag() != schema::Argument::Tag::AS_GRAPH)
    throw CaptureError("argument " + std::to_string(position) + " is no graph");
  return *arguments[position].get_arg().get_as_graph().get_graph();
}

std::vector<IValue> ExportedGraph::enter(const schema::Node &node, size_t position,
                                         const Values &values) {
  const std::vector<schema::NamedArgument> &arguments = node.get_inputs();
  const schema::Graph &graph = getGraph(node, position);
  Values inputs;
  size_t next = position + 1;
  for (const schema::Argument &input : graph.get_inputs()) {
    // Arguments that are neither graph nor tensors are metadata for other readers: an identifier,
    // say.
    while (next < arguments.size() &&
           arguments[next].get_arg().tag() != schema::Argument::Tag::AS_TENSOR &&
           arguments[next].get_arg().tag() != input.tag())
      ++next;
    if (next >= arguments.size())
      throw CaptureError("its graph has " + std::to_string(graph.get_inputs().size()) +
                         " inputs, which the call does not give");
    if (input.tag() == schema::Argument::Tag::AS_TENSOR)
      inputs[input.get_as_tensor().get_name()] =
          convertExportedArgument(arguments[next].get_arg(), c10::TensorType::get(), values);
    ++next;
  }
  return run(graph, std::move(inputs));
}

/// Calls operators that contain graphs. Those that occur in a training step's forward are run
/// inline. Data-dependent branches and loops are refused: a step is fixed.
std::vector<IValue> ExportedGraph::callHigherOrder(const schema::Node &node, const Values &values) {
  const std::string &target = node.get_target();
  std::string name = target.substr(target.rfind('.') + 1);
  const std::vector<schema::NamedArgument> &arguments = node.get_inputs();
  if (name == "wrap_with_set_grad_enabled") {
    c10::AutoGradMode mode(arguments.at(0).get_arg().get_as_bool());
    return enter(node, 1, values);
  }
  if (name == "wrap_with_autocast") {
    const schema::Argument &dtype = arguments.at(1).get_arg();
    Autocast::Region region(autocast, arguments.at(0).get_arg().get_as_string(),
                            dtype.tag() == schema::Argument::Tag::AS_SCALAR_TYPE
                                ? std::optional(convertDtype(dtype.get_as_scalar_type()))
                                : std::nullopt,
                            arguments.at(2).get_arg().get_as_bool());
    return enter(node, 4, values);
  }
  if (name == "tag_activation_checkpoint" || name == "wrap_activation_checkpoint" ||
      name == "wrap" || name == "invoke_subgraph")
    return enter(node, 0, values);
  if (name == "autograd_function")
    return callFunction(node, values);
  if (name == "derivatives")
    return callDerivatives(node, values);
  if (name == "requires_grad")
    return {requireGradient(node, values)};
  static const std::set<std::string> dependsOnData{"cond", "map",        "map_impl",
                                                   "scan", "while_loop", "associative_scan"};
  throw CaptureError(dependsOnData.count(name)
                         ? "control flow in the graph is not captured; a training step has one path"
                         : "this higher-order operator is not supported");
}

void ExportedGraph::addCheck(const schema::Node &node, const Values &values) {
  const std::vector<schema::NamedArgument> &arguments = node.get_inputs();
  const IValue condition =
      convertExportedArgument(arguments.at(0).get_arg(), c10::TensorType::get(), values);
  if (!checked.defined())
    checked = at::zeros({});
  checked = at::_functional_assert_async(condition.toTensor(),
                                         arguments.at(1).get_arg().get_as_string(), checked);
}

at::Tensor ExportedGraph::addChecks(const at::Tensor &loss) const {
  return checked.defined() ? loss.sub(checked.to(loss.scalar_type())) : loss;
}

void ExportedGraph::call(const schema::Node &node, Values &values) {
  const std::string &target = node.get_target();
  const bool isCheck = target == "torch.ops.aten._assert_async.msg";
  // Other assertions are about dtypes and devices of the export, which the capture guarantees.
  if (!isCheck && target.find("_assert") != std::string::npos)
    return;
  place = addPlace(node);
  int own = place;
  std::vector<IValue> results;
  try {
    bool isHigherOrder = target.find(".higher_order.") != std::string::npos;
    if (isCheck)
      addCheck(node, values);
    else
      results = isHigherOrder ? callHigherOrder(node, values) : callOperator(node, values);
  } catch (const std::exception &exception) {
    // The innermost call has reported the error already.
    if (!recorder.error)
      recorder.error = "operator '" + target + "' in " + describePlace(recorder.graph.places[own]) +
                       ": " + summarizeError(exception);
    throw;
  }
  size_t next = 0;
  for (const schema::Argument &output : node.get_outputs()) {
    if (output.tag() == schema::Argument::Tag::AS_TENSOR) {
      values[output.get_as_tensor().get_name()] = results.at(next++);
    } else if (output.tag() == schema::Argument::Tag::AS_TENSORS) {
      // An operator returns one list, a graph its elements.
      bool isList = results.at(next).isTensorList();
      std::vector<at::Tensor> list;
      if (isList)
        list = results.at(next++).toTensorVector();
      for (size_t i = 0; i < output.get_as_tensors().size(); ++i)
        values[output.get_as_tensors()[i].get_name()] =
            isList ? IValue(list.at(i)) : results.at(next++);
    } else {
      ++next;
    }
  }
}

std::vector<IValue> ExportedGraph::run(const schema::Graph &graph, Values values) {
  const int caller = place;
  for (const schema::Node &node : graph.get_nodes())
    call(node, values);
  place = caller;
  std::vector<IValue> outputs;
  for (const schema::Argument &output : graph.get_outputs()) {
    if (output.tag() == schema::Argument::Tag::AS_TENSORS)
      for (const schema::TensorArgument &tensor : output.get_as_tensors())
        outputs.push_back(values.at(tensor.get_name()));
    else
      outputs.push_back(convertExportedArgument(output, c10::TensorType::get(), values));
  }
  return outputs;
}
