//===- OptimizerOptions.cpp - Which options an optimizer has --------------===//

#include "fsdp/IR/OptimizerOptions.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fsdp;

bool fsdp::hasOption(OptimizerKind kind, llvm::StringRef name) {
  static constexpr llvm::StringLiteral ofSgd[] = {"momentum", "dampening", "nesterov"};
  static constexpr llvm::StringLiteral ofAdam[] = {"betas", "eps", "amsgrad"};
  return kind == OptimizerKind::SGD ? !llvm::is_contained(ofAdam, name)
                                    : !llvm::is_contained(ofSgd, name);
}

std::optional<llvm::StringRef> fsdp::findForeignOption(OptimizerKind kind,
                                                       llvm::ArrayRef<GivenOption> options) {
  for (auto [name, isGiven] : options)
    if (isGiven && !hasOption(kind, name))
      return name;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

SmallVector<StringRef, 3> fsdp::getStateNames(OptimizerKind kind, bool hasMomentum, bool amsgrad) {
  if (kind == OptimizerKind::SGD)
    return hasMomentum ? SmallVector<StringRef, 3>{"momentum_buffer"} : SmallVector<StringRef, 3>();
  SmallVector<StringRef, 3> names = {"exp_avg", "exp_avg_sq"};
  if (amsgrad)
    names.push_back("max_exp_avg_sq");
  return names;
}

SmallVector<StringRef, 3> fsdp::getStateNames(OptimizerOp optimizer) {
  return getStateNames(optimizer.getKind(),
                       optimizer.getMomentum() && !optimizer.getMomentum()->isZero(),
                       optimizer.getAmsgrad());
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
      if (auto found = dtypes.find(name); found != dtypes.end()) {
        if (!isOfParameters(found->second))
          list.append(state, TypeAttr::get(found->second));
        break;
      }
  return list.empty() ? DictionaryAttr() : list.getDictionary(context);
}
