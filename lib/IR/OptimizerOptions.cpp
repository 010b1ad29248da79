//===- OptimizerOptions.cpp - Which options an optimizer has --------------===//

#include "fsdp/IR/OptimizerOptions.h"

#include "fsdp/IR/Limits.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fsdp;

static_assert(static_cast<uint32_t>(OptimizerKind::SGD) == FSDP_SGD &&
                  static_cast<uint32_t>(OptimizerKind::Adadelta) == FSDP_ADADELTA,
              "modules and plans number the optimizers alike");

OptimizerOptions fsdp::getDefaultOptions(OptimizerKind kind) {
  OptimizerOptions options;
  for (const plan::OptimizerDefault &known : plan::defaultsOf(getKindEntry(kind)))
    options[std::string(known.option)].assign(
        known.values.begin(), known.values.begin() + plan::findOption(known.option)->numValues());
  return options;
}

std::optional<StringRef> fsdp::findForeignOption(OptimizerKind kind,
                                                 const OptimizerOptions &given) {
  for (const plan::OptimizerOption &option : plan::kOptimizerOptions)
    if (given.contains(option.name) && !plan::findDefault(getKindEntry(kind), option.name))
      return StringRef(option.name);
  return std::nullopt;
}

static std::optional<std::string> checkOption(const plan::OptimizerOption &option,
                                              ArrayRef<double> values) {
  if (values.size() != option.numValues())
    return "holds " + std::to_string(values.size()) +
           (values.size() == 1 ? " number" : " numbers") + ", expected " +
           std::to_string(option.numValues());
  for (double value : values) {
    std::optional<std::string> problem =
        option.range == plan::OptionRange::BelowOne    ? checkBelowOne(value)
        : option.range == plan::OptionRange::UpToOne   ? checkUpToOne(value)
        : option.range == plan::OptionRange::AboveZero ? checkClipLimit(value)
                                                       : checkHyperParameter(value);
    if (problem)
      return problem;
  }
  return std::nullopt;
}

std::optional<WrongOption> fsdp::findWrongOption(const OptimizerOptions &given) {
  for (const plan::OptimizerOption &option : plan::kOptimizerOptions)
    if (auto found = given.find(option.name); found != given.end())
      if (std::optional<std::string> problem = checkOption(option, found->second))
        return WrongOption{option.name, *problem};
  return std::nullopt;
}

/// The number of an option; 0 if it is absent.
static double getNumber(const OptimizerOptions &given, StringRef name) {
  auto found = given.find(name);
  return found == given.end() ? 0 : found->second.front();
}

std::optional<std::string> fsdp::checkNesterov(const OptimizerOptions &given) {
  return checkNesterov(getNumber(given, "nesterov") != 0, getNumber(given, "momentum"),
                       getNumber(given, "dampening"));
}

std::optional<std::string> fsdp::checkClipping(const OptimizerOptions &given, bool clipsNorm) {
  if (!clipsNorm || getNumber(given, "clip_grad_value") == 0)
    return std::nullopt;
  return "clips gradients by both 'clip_grad_norm' and 'clip_grad_value', expected one of them";
}

std::optional<WrongOption> fsdp::findWrongScaling(const LossScaling &scaling) {
  if (std::optional<std::string> problem = checkLossScale(scaling.init))
    return WrongOption{"loss_scale", *problem};
  if (std::optional<std::string> problem = checkGrowthFactor(scaling.growthFactor))
    return WrongOption{"growth_factor", *problem};
  if (std::optional<std::string> problem = checkBackoffFactor(scaling.backoffFactor))
    return WrongOption{"backoff_factor", *problem};
  if (scaling.growthInterval < 1)
    return WrongOption{"growth_interval", "is " + std::to_string(scaling.growthInterval) +
                                              ", expected 1 step or more"};
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

std::optional<LossScaling> fsdp::readLossScaling(OptimizerOp op) {
  if (!op.getLossScale())
    return std::nullopt;
  LossScaling scaling{.init = op.getLossScale()->convertToDouble()};
  if (op.getGrowthFactor())
    scaling.growthFactor = op.getGrowthFactor()->convertToDouble();
  if (op.getBackoffFactor())
    scaling.backoffFactor = op.getBackoffFactor()->convertToDouble();
  scaling.growthInterval = op.getGrowthInterval().value_or(scaling.growthInterval);
  return scaling;
}

void fsdp::writeLossScaling(OptimizerOp op, const std::optional<LossScaling> &scaling) {
  if (!scaling)
    return;
  Builder builder(op);
  op.setLossScaleAttr(builder.getF64FloatAttr(scaling->init));
  op.setGrowthFactorAttr(builder.getF64FloatAttr(scaling->growthFactor));
  op.setBackoffFactorAttr(builder.getF64FloatAttr(scaling->backoffFactor));
  op.setGrowthIntervalAttr(builder.getI64IntegerAttr(scaling->growthInterval));
}

OptimizerOptions fsdp::readOptions(Operation *op) {
  OptimizerOptions options;
  for (const plan::OptimizerOption &option : plan::kOptimizerOptions) {
    Attribute attribute = op->getAttr(StringRef(option.name));
    if (auto number = dyn_cast_if_present<FloatAttr>(attribute))
      options[std::string(option.name)] = {number.getValueAsDouble()};
    else if (auto numbers = dyn_cast_if_present<DenseF64ArrayAttr>(attribute))
      options[std::string(option.name)] = llvm::to_vector<2>(numbers.asArrayRef());
    else if (isa_and_present<UnitAttr>(attribute))
      options[std::string(option.name)] = {1};
  }
  return options;
}

void fsdp::writeOptions(Operation *op, const OptimizerOptions &given) {
  Builder builder(op->getContext());
  for (const plan::OptimizerOption &option : plan::kOptimizerOptions) {
    auto found = given.find(option.name);
    if (found == given.end())
      continue;
    ArrayRef<double> values = found->second;
    Attribute attribute = builder.getUnitAttr();
    if (option.numValues() == 2)
      attribute = builder.getDenseF64ArrayAttr(values);
    else if (!option.isFlag())
      attribute = builder.getF64FloatAttr(values.front());
    if (option.isOptional && values.front() == 0)
      op->removeAttr(StringRef(option.name));
    else
      op->setAttr(StringRef(option.name), attribute);
  }
}

OptimizerOp fsdp::createOptimizer(OpBuilder &builder, Location location, OptimizerKind kind,
                                  const OptimizerOptions &given, FloatAttr clipGradNorm,
                                  NormType clipNormType) {
  OptimizerOp::Properties properties;
  properties.setKind(kind);
  properties.setClipGradNorm(clipGradNorm);
  properties.setClipNormType(clipNormType);
  auto optimizer = OptimizerOp::create(builder, location, TypeRange(), ValueRange(), properties);
  OptimizerOptions options = given;
  options.merge(getDefaultOptions(kind));
  writeOptions(optimizer, options);
  return optimizer;
}

OptimizerGroupOp fsdp::createOptimizerGroup(OpBuilder &builder, Location location,
                                            ArrayRef<Attribute> params,
                                            const OptimizerOptions &given) {
  OptimizerGroupOp::Properties properties;
  properties.setParams(builder.getArrayAttr(params));
  auto group = OptimizerGroupOp::create(builder, location, TypeRange(), ValueRange(), properties);
  writeOptions(group, given);
  return group;
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

SmallVector<StringRef, 3> fsdp::getStateNames(OptimizerKind kind, const OptimizerOptions &given) {
  auto isSet = [&](std::string_view option) { return getNumber(given, option) != 0; };
  SmallVector<StringRef, 3> names;
  for (std::string_view name : plan::statesOf(getKindEntry(kind), isSet))
    if (!name.empty())
      names.push_back(name);
  return names;
}

SmallVector<StringRef, 3> fsdp::getStateNames(OptimizerOp optimizer) {
  return getStateNames(optimizer.getKind(), readOptions(optimizer));
}

std::optional<std::string> fsdp::explainForeignState(StringRef name, OptimizerKind kind,
                                                     ArrayRef<StringRef> states) {
  if (llvm::is_contained(states, name))
    return std::nullopt;
  std::string optimizer = stringifyOptimizerKind(kind).str();
  if (states.empty())
    return optimizer + " without momentum keeps no state";
  return optimizer + " has no state '" + name.str() + "', it has " + llvm::join(states, ", ");
}

llvm::Expected<StateDtypes> fsdp::parseStateDtypes(StringRef text) {
  StateDtypes dtypes;
  SmallVector<StringRef, 3> parts;
  text.split(parts, ',');
  for (StringRef part : parts) {
    auto [name, word] = part.contains('=') ? part.split('=') : std::pair(StringRef(), part);
    if (llvm::any_of(dtypes, [&](const auto &other) { return other.first == name; }))
      return llvm::createStringError("the dtype of " +
                                     (name.empty() ? "all states" : "state '" + name + "'") +
                                     " is given twice in '" + text + "'");
    dtypes.emplace_back(name.str(), word.str());
  }
  return dtypes;
}

/// The dtype of a state, from the user's word.
static llvm::Expected<Type> parseStateDtype(StringRef word, MLIRContext *context) {
  StringRef name = word;
  name.consume_front("torch.");
  if (name == "float32")
    return Float32Type::get(context);
  if (name == "bfloat16")
    return BFloat16Type::get(context);
  return llvm::createStringError("the dtype of optimizer state is '" + word +
                                 "', expected float32 or bfloat16");
}

llvm::Expected<DictionaryAttr> fsdp::makeStateDtype(const StateDtypes &given, OptimizerKind kind,
                                                    ArrayRef<StringRef> states, ModuleOp module) {
  MLIRContext *context = module.getContext();
  llvm::StringMap<Type> dtypes;
  for (const auto &[name, word] : given) {
    if (std::optional<std::string> wrong = explainForeignState(
            name.empty() && !states.empty() ? states.front() : StringRef(name), kind, states))
      return llvm::createStringError(*wrong);
    llvm::Expected<Type> dtype = parseStateDtype(word, context);
    if (!dtype)
      return dtype.takeError();
    dtypes[name] = *dtype;
  }
  auto isOfParameters = [&](Type dtype) {
    return llvm::all_of(module.getOps<ParamOp>(), [&](ParamOp param) {
      return param.getFrozen() || cast<ShapedType>(param.getType()).getElementType() == dtype;
    });
  };
  NamedAttrList list;
  for (StringRef state : states)
    for (StringRef name : {state, StringRef()})
      if (auto found = dtypes.find(name);
          found != dtypes.end() && !(name.empty() && state == StringRef(plan::kAverage))) {
        if (!isOfParameters(found->second))
          list.append(state, TypeAttr::get(found->second));
        break;
      }
  return list.empty() ? DictionaryAttr() : list.getDictionary(context);
}
