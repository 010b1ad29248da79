//===- TorchScript.cpp - Models saved by torch.jit ------------------------===//

#include "InlineCalls.h"
#include "Model.h"
#include "StoredTensors.h"
#include "TorchErrors.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/csrc/jit/serialization/import.h>

#include <set>

using namespace fsdp::frontend;
namespace jit = torch::jit;

namespace {

/// The module attribute that holds a parameter; `prefix` is the module's name prefix.
struct ModuleSlot {
  jit::ObjectPtr part;
  size_t index;
  std::string prefix;
};

/// A scripted or traced model.
class ScriptModel {
public:
  ScriptModel(const CaptureOptions &options, bool needsValues, Model &model)
      : options(options), model(model) {
    module = load(needsValues);
    if (options.isEvaluation)
      module.eval();
    auto method = module.find_method(options.method);
    if (!method)
      throw CaptureError("the model has no method '" + options.method + "'");
    auto *function = jit::tryToGraphFunction(method->function());
    if (!function)
      throw CaptureError("method '" + options.method + "' is not TorchScript code");
    wrapModule(module, "");
    for (const ModuleSlot &slot : lists)
      wrapList(slot);
    makeInputs(function->getSchema());
    graph = function->graph()->copy();
    source = inlineCalls(*graph, model.recorder.graph.places);
    wrapConstants(graph->block());
  }

  at::Tensor run() {
    castParameters();
    jit::Code code(graph, options.method);
    jit::Stack stack = arguments;
    for (c10::IValue &argument : stack)
      if (argument.isTensor())
        argument = model.castForForward(argument.toTensor());
    jit::InterpreterState(code).run(stack);
    if (stack.size() != 1 || !stack[0].isTensor())
      throw CaptureError("method '" + options.method + "' returns " +
                         (stack.empty() ? "nothing" : stack[0].tagKind()) +
                         ", expected one tensor: the loss");
    return stack[0].toTensor();
  }

  int getPlace() const {
    if (castPlace)
      return *castPlace;
    auto stack = jit::currentCallstack();
    for (auto entry = stack.rbegin(); entry != stack.rend(); ++entry)
      if (entry->range.source() == source)
        return static_cast<int>(entry->range.start());
    return 0;
  }

private:
  jit::Module load(bool needsValues) {
    try {
      // Literals of the code always need their values.
      bool hasConstants = false;
      {
        caffe2::serialize::PyTorchStreamReader reader(options.model);
        for (const std::string &record : reader.getAllRecords()) {
          hasConstants |= record.rfind("constants/", 0) == 0;
          model.hasWeights |= record.rfind("data/", 0) == 0 && reader.getRecordSize(record) > 0;
        }
        refuseCodeAtLoad(reader);
        checkStoredTensors(reader);
      }
      if (needsValues || hasConstants)
        return jit::load(options.model);
      return jit::load(options.model, c10::Device(at::kMeta));
    } catch (const CaptureError &) {
      throw;
    } catch (const std::exception &exception) {
      throw CaptureError("not a readable TorchScript file: " + getReason(exception));
    }
  }

  void wrapModule(const jit::Module &part, const std::string &prefix) {
    auto type = part.type();
    for (size_t i = 0; i < type->numAttributes(); ++i) {
      c10::IValue value = part._ivalue()->getSlot(i);
      std::string name = prefix + type->getAttributeName(i);
      if (value.isModule())
        wrapModule(value.toModule(), name + ".");
      else if (value.isTensor() && value.toTensor().defined()) {
        part._ivalue()->setSlot(
            i, model.addTensor(name, value.toTensor(),
                               type->is_parameter(i) ? TensorRole::Parameter : TensorRole::Buffer));
        if (type->is_parameter(i))
          parameters.push_back({part._ivalue(), i, prefix});
      } else if (value.isTensorList()) {
        lists.push_back({part._ivalue(), i, name});
      } else
        refuseTensors(value, name);
    }
  }

  /// Replaces a list of the module's own parameters, as recurrent layers have. Other tensors in the
  /// list have no name and are refused.
  void wrapList(const ModuleSlot &slot) {
    c10::List<at::Tensor> wrapped;
    for (const at::Tensor &tensor : slot.part->getSlot(slot.index).toTensorVector()) {
      at::Tensor known = model.findTensor(tensor);
      if (!known.defined())
        refuseTensors(tensor, slot.prefix);
      wrapped.push_back(known.defined() ? known : tensor);
    }
    slot.part->setSlot(slot.index, wrapped);
  }

  /// Casts parameters. Each cast belongs to the parameter's module, in the backward, too.
  void castParameters() {
    if (!model.paramDtype)
      return;
    std::vector<Place> &places = model.recorder.graph.places;
    for (const ModuleSlot &slot : parameters) {
      castPlace = static_cast<int>(places.size());
      places.push_back({.module = slot.prefix.substr(0, slot.prefix.rfind('.')), .file = {}});
      slot.part->setSlot(slot.index,
                         model.castForForward(slot.part->getSlot(slot.index).toTensor()));
    }
    for (const ModuleSlot &slot : lists) {
      c10::List<at::Tensor> cast;
      for (const at::Tensor &tensor : slot.part->getSlot(slot.index).toTensorVector())
        cast.push_back(tensor.requires_grad() ? model.castForForward(tensor) : tensor);
      slot.part->setSlot(slot.index, cast);
    }
    castPlace.reset();
  }

  /// Refuses tensors in lists, tuples and dictionaries: they have no names of their own.
  void refuseTensors(const c10::IValue &value, const std::string &name) {
    if (value.isTensor() && value.toTensor().defined())
      model.recorder.refuse(value.toTensor(), name);
    else if (value.isList())
      for (const c10::IValue &element : value.toList().vec())
        refuseTensors(element, name);
    else if (value.isTuple())
      for (const c10::IValue &element : value.toTupleRef().elements())
        refuseTensors(element, name);
    else if (value.isGenericDict())
      for (const auto &entry : value.toGenericDict())
        refuseTensors(entry.value(), name);
  }

  /// The arguments of the entry point: the module, then inputs by name, then defaults.
  void makeInputs(const c10::FunctionSchema &schema) {
    arguments.push_back(module._ivalue());
    std::string expected;
    for (size_t i = 1; i < schema.arguments().size(); ++i)
      expected += (i > 1 ? ", " : "") + schema.arguments()[i].name();
    for (const InputSpec &input : options.inputs)
      if (schema.argumentIndexWithName(input.name).value_or(0) == 0)
        throw CaptureError("input '" + input.name + "' is no argument of '" + options.method +
                           "', whose arguments are: " + expected);
    for (size_t i = 1; i < schema.arguments().size(); ++i) {
      const c10::Argument &argument = schema.arguments()[i];
      auto input = std::find_if(options.inputs.begin(), options.inputs.end(),
                                [&](const InputSpec &s) { return s.name == argument.name(); });
      if (input == options.inputs.end()) {
        if (!argument.default_value())
          throw CaptureError("argument '" + argument.name() + "' of '" + options.method +
                             "' has no --input; got " + std::to_string(options.inputs.size()) +
                             " inputs, expected " + std::to_string(schema.arguments().size() - 1) +
                             ": " + expected);
        arguments.push_back(*argument.default_value());
        continue;
      }
      if (!argument.type()->isSubtypeOf(*c10::OptionalType::ofTensor()))
        throw CaptureError("input '" + input->name + "' is a " + argument.type()->str() +
                           ", expected a tensor");
      arguments.push_back(model.addInput(*input));
    }
  }

  /// Refuses calls that access files, devices or other processes: the capture would run them.
  static void refuseOutside(jit::Node *node) {
    std::string name = node->kind().toQualString();
    std::string domain = name.substr(0, name.find("::"));
    static const std::set<std::string> domains = {"c10d", "_c10d_functional",
                                                  "_c10d_functional_autograd", "cuda", "symm_mem"};
    static const std::set<std::string> names = {"aten::save", "aten::from_file", "prim::rpc_async",
                                                "prim::rpc_sync", "prim::rpc_remote"};
    if (domains.count(domain) || names.count(name))
      throw CaptureError("operator '" + name +
                         "' is refused: it reaches files, devices or processes, and a step "
                         "computes with tensors alone");
  }

  /// Replaces literals in the code, real CPU tensors, by functional tensors.
  void wrapConstants(jit::Block *block) {
    for (auto it = block->nodes().begin(); it != block->nodes().end();) {
      jit::Node *node = *it++;
      refuseOutside(node);
      for (jit::Block *inner : node->blocks())
        wrapConstants(inner);
      if (node->kind() == c10::aten::tensor || node->kind() == c10::aten::as_tensor) {
        replaceTensorLiteral(node);
      } else if (node->kind() == c10::prim::Constant && node->hasAttribute(c10::attr::value)) {
        if (node->kindOf(c10::attr::value) == jit::AttributeKind::t)
          node->t_(c10::attr::value, wrapConstant(node));
      } else if (node->kind() == c10::prim::ListConstruct) {
        useKnownType(node->output());
      } else if (node->kind() == c10::prim::Enter) {
        refuseAutocast(node);
      }
    }
  }

  /// A trace stores the number of `1e-4 * x` like any other constant. It is recognized as a double
  /// without dimensions, or a long outside of lists: no tensor of a program is one.
  at::Tensor wrapConstant(jit::Node *node) {
    const at::Tensor &value = node->t(c10::attr::value);
    bool isNumber = value.dim() == 0 &&
                    (value.scalar_type() == at::kDouble || value.scalar_type() == at::kLong);
    for (const jit::Use &use : node->output()->uses())
      isNumber &= use.user->kind() != c10::prim::ListConstruct;
    if (isNumber)
      return Recorder::wrapNumber(value);
    const std::string &module = getPlaceOf(node).module;
    return model.recorder.wrapConstant(value, (module.empty() ? "" : module + ".") + "constant" +
                                                  std::to_string(numConstants++));
  }

  const Place &getPlaceOf(jit::Node *node) const {
    return model.recorder.graph.places[node->sourceRange().start()];
  }

  /// torch recognizes lists of optional tensors (as in x[i]) by the address of their type. A loaded
  /// file has copies of the type.
  static void useKnownType(jit::Value *list) {
    static const c10::TypePtr known = c10::getTypePtr<std::optional<at::Tensor>>();
    auto type = list->type()->cast<c10::ListType>();
    if (type && *type->getElementType() == *known)
      list->setType(c10::ListType::create(known));
  }

  /// Refuses autocast: TorchScript casts when its executor optimizes a graph, by its own lists.
  void refuseAutocast(jit::Node *enter) {
    auto type = enter->input(0)->type()->cast<c10::ClassType>();
    if (type && type->name() && type->name()->name() == "autocast")
      throw CaptureError("torch.autocast in " + describePlace(getPlaceOf(enter)) +
                         " of a scripted model is not captured: export the model with "
                         "torch.export, or trace it");
  }

  /// torch.tensor(...) writes through data pointers. It runs outside of the recording, and its
  /// result becomes a literal.
  void replaceTensorLiteral(jit::Node *node) {
    static int count = 0;
    const c10::FunctionSchema &schema = node->schema();
    std::string name = "fsdp_frontend::tensor" + std::to_string(count++);
    auto operation = std::make_shared<jit::Operation>(node->getOperation());
    size_t numArguments = schema.arguments().size();
    Recorder *recorder = &model.recorder;
    auto run = [operation, numArguments, recorder](jit::Stack &stack) {
      c10::impl::ExcludeDispatchKeyGuard outside(
          c10::DispatchKeySet({c10::DispatchKey::Fake, c10::DispatchKey::Functionalize}));
      for (size_t i = stack.size() - numArguments; i < stack.size(); ++i)
        if (stack[i].isDevice())
          stack[i] = c10::Device(at::kCPU);
      (*operation)(stack);
      stack.back() = recorder->wrapConstant(stack.back().toTensor());
    };
    jit::registerOperator(jit::Operator(name, "", schema.arguments(), schema.returns(),
                                        jit::Operation(run), c10::AliasAnalysisKind::CONSERVATIVE));
    node->replaceWithNewSymbol(c10::Symbol::fromQualString(name));
    node->destroy();
  }

  const CaptureOptions &options;
  Model &model;
  std::vector<ModuleSlot> parameters, lists; // of lists, the prefix is the whole name
  std::optional<int> castPlace;              // during castParameters()
  int numConstants = 0;
  jit::Module module;
  std::shared_ptr<jit::Graph> graph;
  std::shared_ptr<jit::Source> source;
  jit::Stack arguments;
};

} // namespace

void fsdp::frontend::loadTorchScript(const CaptureOptions &options, bool needsValues,
                                     Model &model) {
  auto script = std::make_shared<ScriptModel>(options, needsValues, model);
  model.recorder.getPlace = [script] { return script->getPlace(); };
  model.forward = [script] { return script->run(); };
}
