//===- ExportedPolicies.cpp - Mixed precision of exported modules ----------===//

#include "fsdp/Transforms/ExportedPolicies.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fsdp;

static llvm::StringMap<Type> findCasts(Step &step) {
  llvm::StringMap<Type> casts;
  for (auto read : step.getBody().getOps<ReadOp>()) {
    for (Operation *user : read.getResult().getUsers()) {
      auto call = dyn_cast<aten::CallOp>(user);
      const bool isCast = call && call.getBaseName() == "_to_copy";
      Type to = isCast ? getElementTypeOrSelf(call.getResult(0)) : Type();
      auto [entry, isNew] = casts.try_emplace(read.getSource(), to);
      if (entry->second != to)
        entry->second = Type();
    }
  }
  return casts;
}

ExportedPolicies::ExportedPolicies(Step &step) : step(step), casts(findCasts(step)) {
  for (auto op : step.module.getOps<MixedPrecisionOp>()) {
    Policy &policy = policies.emplace_back();
    policy.op = op;
    for (StringRef path : op.getModules().getAsValueRange<StringAttr>())
      policy.modules.push_back(&tree.add(path));
  }
}

bool ExportedPolicies::Policy::holds(const Module &module) const {
  return llvm::any_of(modules, [&](const Module *outer) { return module.isIn(*outer); });
}

MixedPrecisionOp ExportedPolicies::find(ArrayRef<std::string> modules) {
  for (const Policy &policy : policies)
    if (llvm::all_of(modules,
                     [&](const std::string &path) { return policy.holds(tree.add(path)); }))
      return policy.op;
  return {};
}

bool ExportedPolicies::follows(ParamOp param) {
  Type element = cast<RankedTensorType>(param.getType()).getElementType();
  MixedPrecisionOp policy = find(param.getSymName().str());
  if (!param.getFrozen() || !policy || !policy.getParamDtype() ||
      *policy.getParamDtype() == element)
    return true;
  return element.isF32() && casts.lookup(param.getSymName()) == *policy.getParamDtype();
}

/// The dtypes in which a parameter of `type` is gathered and reduced under the policy; null: no
/// policy.
static std::pair<Type, Type> getDtypes(MixedPrecisionOp policy, Type type) {
  Type gathered = type;
  if (policy && policy.getParamDtype())
    gathered = *policy.getParamDtype();
  Type reduced = gathered;
  if (policy && policy.getReduceDtype())
    reduced = *policy.getReduceDtype();
  return {gathered, reduced};
}

llvm::Error ExportedPolicies::check(const ParamGroup &group) {
  MixedPrecisionOp ofGroup = find(group.modules);
  for (unsigned index : group.params) {
    ParamOp param = step.params[index];
    SmallVector<const Module *> holders;
    for (StringRef name : param.getNames())
      holders.push_back(&tree.addHolder(name));
    auto own = llvm::find_if(policies, [&](const Policy &policy) {
      return llvm::any_of(holders, [&](const Module *module) { return policy.holds(*module); });
    });
    if (own == policies.end() || own->op == ofGroup)
      continue;
    Type type = cast<RankedTensorType>(param.getType()).getElementType();
    if (getDtypes(own->op, type) == getDtypes(ofGroup, type))
      continue;
    std::string text;
    llvm::raw_string_ostream os(text);
    auto [gathered, reduced] = getDtypes(own->op, type);
    auto [groupGathered, groupReduced] = getDtypes(ofGroup, type);
    os << "parameter '" << param.getSymName() << "' was exported with param_dtype " << gathered
       << " and reduce_dtype " << reduced << " of module '" << own->modules.front()->path
       << "', but belongs to the group of module '" << group.modules.front() << "' with "
       << groupGathered << " and " << groupReduced
       << ": give that module a group of its own, or say mixed_precision of the group";
    return llvm::createStringError(text);
  }
  return llvm::Error::success();
}
