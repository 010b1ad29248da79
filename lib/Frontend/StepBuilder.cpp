//===- StepBuilder.cpp - A recorded step as IR ----------------------------===//

#include "StepBuilder.h"

#include "fsdp/Files/SourcePath.h"
#include "fsdp/IR/AtenSemantics.h"
#include "fsdp/IR/GradientSum.h"
#include "fsdp/IR/TensorLayout.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::frontend;

namespace {

class StepBuilder {
public:
  StepBuilder(Model &model, const StepOutputs &outputs, MLIRContext &context)
      : model(model), graph(model.recorder.graph), outputs(outputs), context(context),
        builder(UnknownLoc::get(&context), &context), values(graph.values.size()) {}

  OwningOpRef<ModuleOp> run(const OptimizerSpec &optimizer) {
    OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getLoc(), model.name);
    module->removeSymNameAttr();
    (*module)->setAttr(FsdpDialect::getPhaseAttrName(),
                       ModulePhaseAttr::get(&context, ModulePhase::Captured));
    (*module)->setAttr(FsdpDialect::getModelAttrName(), builder.getStringAttr(model.name));
    if (model.ranks)
      (*module)->setAttr(FsdpDialect::getRanksAttrName(), builder.getI64IntegerAttr(*model.ranks));
    findNeeded();
    builder.setInsertionPointToStart(module->getBody());
    declareTensors();
    declareOptimizer(optimizer);
    declarePolicies();
    buildFunction();
    return module;
  }

private:
  void findNeeded();
  void declareTensors();
  void declareOptimizer(const OptimizerSpec &spec);
  FlatSymbolRefAttr getParam(const std::string &name);
  void declarePolicies();
  void buildFunction();
  aten::CallOp buildCall(const GraphNode &node);
  void markGradientSums();
  void buildGradients(int value);
  mlir::Value getOperand(int id);
  ElementsAttr makeLiteral(const at::Tensor &data);
  RankedTensorType getType(const at::Tensor &tensor) {
    return getStridedTensorType(tensor.sizes(), convertDtype(tensor.scalar_type(), context),
                                tensor.strides(), tensor.storage_offset());
  }
  FlatSymbolRefAttr getSymbol(StringRef name) { return FlatSymbolRefAttr::get(&context, name); }
  Location getLocation(int place);

  Model &model;
  const Graph &graph;
  const StepOutputs &outputs;
  MLIRContext &context;
  ImplicitLocOpBuilder builder;
  std::vector<mlir::Value> values; // by the graph's values
  std::vector<bool> isNeeded;      // by node
  llvm::DenseMap<int, aten::CallOp> callOfNode;
  llvm::DenseMap<Attribute, mlir::Value> literals;
  llvm::DenseMap<int, SmallVector<StringRef, 1>> parametersOfGradient;
  std::vector<Location> locations; // by place
  int64_t nextRandom = 0;
};

} // namespace

/// Marks the nodes that the outputs of the step depend on, from the last to the first. Notes inputs
/// that no output depends on.
void StepBuilder::findNeeded() {
  std::vector<bool> isValueNeeded(graph.values.size());
  isValueNeeded[outputs.loss] = true;
  for (int gradient : outputs.gradients)
    isValueNeeded[gradient] = true;
  for (auto [buffer, value] : outputs.writes)
    isValueNeeded[value] = true;
  isNeeded.resize(graph.nodes.size());
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    bool needed = false;
    for (const c10::IValue &result : graph.nodes[i].results)
      forEachTensor(result,
                    [&](const at::Tensor &t) { needed = needed || isValueNeeded[graph.find(t)]; });
    isNeeded[i] = needed;
    if (!needed)
      continue;
    for (const c10::IValue &argument : graph.nodes[i].arguments)
      forEachTensor(argument, [&](const at::Tensor &tensor) {
        if (int id = graph.find(tensor); id >= 0)
          isValueNeeded[id] = true;
      });
  }
  for (int input : model.inputs)
    if (!isValueNeeded[input])
      model.notes.push_back("input '" + graph.values[input].name +
                            "' is not used: the loss does not depend on it");
}

void StepBuilder::declareTensors() {
  for (bool isParameter : {true, false})
    for (const ModelTensor &tensor : model.tensors) {
      if (tensor.isParameter != isParameter)
        continue;
      auto type = RankedTensorType::get(tensor.data.sizes(),
                                        convertDtype(tensor.data.scalar_type(), context));
      ArrayAttr aliases;
      if (!tensor.aliases.empty())
        aliases = builder.getStrArrayAttr(llvm::to_vector_of<StringRef>(tensor.aliases));
      if (!isParameter) {
        ElementsAttr init = tensor.isTransient ? makeLiteral(tensor.data) : ElementsAttr();
        BufferOp::create(builder, tensor.name, type, aliases, init, /*offset=*/IntegerAttr());
        continue;
      }
      ParamOp::create(builder, tensor.name, type, aliases, tensor.isFrozen);
    }
}

void StepBuilder::declareOptimizer(const OptimizerSpec &spec) {
  llvm::Expected<DictionaryAttr> stateDtype =
      makeStateDtype(spec.stateDtypes, *spec.kind, getStateNames(*spec.kind, spec.options),
                     cast<ModuleOp>(builder.getInsertionBlock()->getParentOp()));
  if (!stateDtype)
    throw CaptureError("optimizer-state-dtype: " + llvm::toString(stateDtype.takeError()));
  FloatAttr clipGradNorm;
  if (spec.clipGradNorm)
    clipGradNorm = builder.getF64FloatAttr(*spec.clipGradNorm);
  OptimizerOp optimizer = createOptimizer(builder, builder.getLoc(), *spec.kind, spec.options,
                                          clipGradNorm, spec.clipNormType);
  if (*stateDtype)
    optimizer.setStateDtypeAttr(*stateDtype);
  if (!outputs.isEvaluation) // an evaluation receives the optimizer of the training step
    writeLossScaling(optimizer, spec.lossScaling);
  for (const OptimizerGroupSpec &group : spec.groups) {
    SmallVector<Attribute> members = llvm::map_to_vector(
        group.parameters, [&](const std::string &name) { return Attribute(getParam(name)); });
    createOptimizerGroup(builder, builder.getLoc(), members, group.options);
  }
}

void StepBuilder::declarePolicies() {
  auto get = [&](std::optional<at::ScalarType> dtype) {
    return dtype ? TypeAttr::get(convertDtype(*dtype, context)) : TypeAttr();
  };
  for (const ExportedPolicy &policy : model.policies)
    MixedPrecisionOp::create(builder,
                             builder.getStrArrayAttr(llvm::to_vector_of<StringRef>(policy.modules)),
                             get(policy.paramDtype), get(policy.reduceDtype));
}

/// The parameter that has this name among its names.
FlatSymbolRefAttr StepBuilder::getParam(const std::string &name) {
  for (const ModelTensor &tensor : model.tensors)
    if (tensor.isParameter && (tensor.name == name || llvm::is_contained(tensor.aliases, name)))
      return FlatSymbolRefAttr::get(&context, tensor.name);
  throw CaptureError("the file's optimizer has a parameter '" + name +
                     "', which the model does not have");
}

Location StepBuilder::getLocation(int place) {
  while (locations.size() <= static_cast<size_t>(place)) {
    const Place &p = graph.places[locations.size()];
    if (p.file.empty())
      locations.push_back(UnknownLoc::get(&context));
    else
      locations.push_back(
          FileLineColLoc::get(&context, shortenSourcePath(p.file), p.line, p.column));
  }
  return locations[place];
}

// Of a training step: the number of the update, and its learning rate.
static constexpr const char *kStepInput = "step", *kRateInput = "lr";

void StepBuilder::buildFunction() {
  RankedTensorType lossType = getType(graph.values[outputs.loss].tensor);
  auto function =
      func::FuncOp::create(builder, outputs.isEvaluation ? kEvaluationName : kTrainingName,
                           builder.getFunctionType({}, {lossType}));
  builder.setInsertionPointToStart(function.addEntryBlock());
  for (int id : model.inputs)
    if (graph.values[id].name == kStepInput || graph.values[id].name == kRateInput)
      throw CaptureError("input '" + graph.values[id].name +
                         "' has the name of an input that each step has: give it another one");
  for (int id : model.inputs)
    values[id] = InputOp::create(builder, getType(graph.values[id].tensor), graph.values[id].name,
                                 /*microbatch=*/0, IntegerAttr());
  if (outputs.lossScale >= 0)
    values[outputs.lossScale] = LossScaleOp::create(
        builder, getType(graph.values[outputs.lossScale].tensor), IntegerAttr());
  mlir::Value step, lr;
  if (!outputs.isEvaluation) {
    step =
        InputOp::create(builder, builder.getI64Type(), kStepInput, /*microbatch=*/0, IntegerAttr());
    lr =
        InputOp::create(builder, builder.getF64Type(), kRateInput, /*microbatch=*/0, IntegerAttr());
    size_t parameter = 0;
    for (const ModelTensor &tensor : model.tensors)
      if (tensor.isParameter && !tensor.isFrozen)
        parametersOfGradient[outputs.gradients[parameter++]].push_back(tensor.name);
  }

  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (isNeeded[i])
      callOfNode[i] = buildCall(graph.nodes[i]);
  markGradientSums();

  builder.setLoc(UnknownLoc::get(&context));
  // Gradients without a call: a literal, an input or a buffer.
  for (int gradient : outputs.gradients)
    buildGradients(gradient);
  for (auto [buffer, value] : outputs.writes)
    WriteOp::create(builder, getSymbol(model.tensors[buffer].name), getOperand(value));
  for (const ModelTensor &tensor : model.tensors)
    if (tensor.isParameter && !tensor.isFrozen && !outputs.isEvaluation)
      UpdateOp::create(builder, getSymbol(tensor.name), /*gradient=*/mlir::Value(), step, lr,
                       /*clip=*/mlir::Value(), /*scale=*/mlir::Value(),
                       /*state=*/mlir::Value());
  func::ReturnOp::create(builder, getOperand(outputs.loss));
}

/// Builds the gradients of the parameters whose gradient this value is, once.
void StepBuilder::buildGradients(int value) {
  auto found = parametersOfGradient.find(value);
  if (found == parametersOfGradient.end())
    return;
  for (StringRef name : found->second)
    GradOp::create(builder, getSymbol(name), getOperand(value), /*microbatch=*/0);
  parametersOfGradient.erase(found);
}

ElementsAttr StepBuilder::makeLiteral(const at::Tensor &data) {
  at::Tensor values = data.contiguous();
  auto type = RankedTensorType::get(values.sizes(), convertDtype(values.scalar_type(), context));
  // MLIR packs the elements of an i1 literal into bits; a bool tensor has one byte per element.
  if (values.scalar_type() == at::kBool)
    return DenseElementsAttr::get(
        type, ArrayRef<bool>(values.const_data_ptr<bool>(), static_cast<size_t>(values.numel())));
  ArrayRef<char> bytes(static_cast<const char *>(values.const_data_ptr()), values.nbytes());
  return DenseElementsAttr::getFromRawBuffer(type, bytes);
}

/// The SSA value; parameters, buffers and literals are read at their first use.
mlir::Value StepBuilder::getOperand(int id) {
  if (values[id])
    return values[id];
  const GraphValue &value = graph.values[id];
  if (value.kind == ValueKind::Constant) {
    ElementsAttr literal = makeLiteral(value.data);
    // Equal literals become one constant, with the name of the first.
    mlir::Value &constant = literals[literal];
    if (!constant) {
      Location location = builder.getLoc();
      if (!value.name.empty())
        builder.setLoc(NameLoc::get(builder.getStringAttr(value.name), location));
      constant = aten::ConstantOp::create(builder, literal.getType(), literal, IntegerAttr());
      builder.setLoc(location);
    }
    return values[id] = constant;
  }
  assert(value.kind != ValueKind::Result && value.kind != ValueKind::Input &&
         "used before it is made");
  return values[id] = ReadOp::create(builder, getType(value.tensor), getSymbol(value.name));
}

aten::CallOp StepBuilder::buildCall(const GraphNode &node) {
  const c10::FunctionSchema &schema = node.op.schema();
  const Place &place = graph.places[node.place];
  std::string callee = getCalleeName(node.op);
  builder.setLoc(getLocation(node.place));
  SmallVector<Attribute> arguments;
  std::vector<int> operandIds;
  try {
    for (size_t i = 0; i < node.arguments.size(); ++i)
      arguments.push_back(
          convertArgument(node.arguments[i], schema.arguments()[i], graph, operandIds, context));
  } catch (const CaptureError &error) {
    throw CaptureError("operator '" + callee + "' in module '" + place.module +
                       "': " + error.what());
  }
  SmallVector<mlir::Value> operands;
  for (int id : operandIds)
    operands.push_back(getOperand(id));

  SmallVector<Type> types;
  std::vector<int> resultIds;
  auto addResult = [&](const c10::IValue &result) {
    bool isTensor = result.isTensor() && result.toTensor().defined();
    types.push_back(isTensor ? Type(getType(result.toTensor())) : builder.getNoneType());
    resultIds.push_back(isTensor ? graph.find(result.toTensor()) : -1);
  };
  if (node.results.size() == 1 && node.results[0].isTensorList()) {
    for (const at::Tensor &tensor : node.results[0].toTensorList())
      addResult(tensor);
  } else {
    for (const c10::IValue &result : node.results)
      addResult(result);
  }
  IntegerAttr random;
  if (aten::lookupSemantics(StringRef(callee).split('.').first).isRandom)
    random = builder.getI64IntegerAttr(nextRandom++);
  auto call =
      aten::CallOp::create(builder, types, operands, callee, builder.getArrayAttr(arguments),
                           node.isBackward ? aten::Phase::Backward : aten::Phase::Forward,
                           aten::ScopeAttr::get(&context, place.module, place.calls), random,
                           /*offsets=*/DenseI64ArrayAttr());
  for (auto [id, result] : llvm::zip_equal(resultIds, call.getResults()))
    if (id >= 0)
      values[id] = result;
  for (int id : resultIds)
    if (id >= 0)
      buildGradients(id);
  return call;
}

/// Marks sums of gradients that depend on the groups with the origins of their summands.
void StepBuilder::markGradientSums() {
  auto getScope = [&](int place) -> Attribute {
    return aten::ScopeAttr::get(&context, graph.places[place].module, graph.places[place].calls);
  };
  for (const GradientSum &sum : model.recorder.sums.list(graph.places)) {
    auto call = callOfNode.find(sum.last);
    if (call == callOfNode.end())
      continue;
    SmallVector<Attribute> scopes{getScope(sum.of)};
    llvm::append_range(scopes, llvm::map_range(sum.from, getScope));
    call->second->setAttr(aten::kGradientSumAttrName, builder.getArrayAttr(scopes));
  }
}

OwningOpRef<ModuleOp> fsdp::frontend::buildStep(Model &model, const StepOutputs &outputs,
                                                const OptimizerSpec &optimizer,
                                                MLIRContext &context) {
  return StepBuilder(model, outputs, context).run(optimizer);
}
