//===- MixedPrecision.cpp - Gathers in the dtype of the parameters' uses --===//

#include "fsdp/Analysis/GradientRounding.h"
#include "fsdp/Analysis/Step.h"
#include "fsdp/Config/ModuleTree.h"
#include "fsdp/IR/AtenBuilders.h"
#include "fsdp/Transforms/Decisions.h"
#include "fsdp/Transforms/Float8Gathers.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "passes/Passes.h"
#include "llvm/Support/FormatVariadic.h"

namespace fsdp {
#define GEN_PASS_DEF_MIXEDPRECISION
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

namespace {

/// How the step uses the parameters of a group.
struct GroupUses {
  Type dtype; // to which the parameters are cast; null: no casts
  SmallVector<ReadOp> reads;
  SmallVector<CallOp> casts;     // to any dtype
  OpOperand *otherUse = nullptr; // the first use that is not a cast to `dtype`
  SmallVector<GradOp> gradients;
};

struct MixedPrecisionPass : public fsdp::impl::MixedPrecisionBase<MixedPrecisionPass> {
  using MixedPrecisionBase::MixedPrecisionBase;
  void runOnOperation() override;

private:
  void collectUses();
  FailureOr<Type> findTravelDtype(GroupOp group, const GroupUses &uses);
  LogicalResult checkModuleInputs(ArrayRef<GroupOp> asked);
  void decideGathers(GroupOp group, GroupUses &uses, Type dtype);
  void decideReductions(GroupOp group, GroupUses &uses);
  void narrowGathers(GroupOp group, GroupUses &uses);
  void castGradients(GroupOp group, GroupUses &uses);

  Step step;
  Float8CastsByParam float8;
  SmallVector<GroupUses> usesOf; // for each group
  unsigned numNarrowed = 0, numCastsRemoved = 0;
};

} // namespace

/// The dtype to which a call casts its operand, if the call is a mere cast; else null.
static Type getCastDtype(Operation *op) {
  auto call = dyn_cast<CallOp>(op);
  if (!call || call.getCallee() != "_to_copy.default" || call.getNumResults() != 1)
    return {};
  auto from = cast<RankedTensorType>(call.getOperand(0).getType());
  auto to = dyn_cast<RankedTensorType>(call.getResult(0).getType());
  if (!to || to != from.clone(to.getElementType()))
    return {};
  return to.getElementType();
}

static Type getElementType(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

void MixedPrecisionPass::collectUses() {
  usesOf.assign(step.groups.size(), {});
  auto groupOf = [&](FlatSymbolRefAttr name) -> GroupUses * {
    auto member = step.memberByParam.find(name.getAttr());
    return member == step.memberByParam.end() ? nullptr : &usesOf[member->second.group];
  };
  for (Operation &op : step.getBody()) {
    if (auto grad = dyn_cast<GradOp>(op)) {
      if (GroupUses *uses = groupOf(grad.getParamAttr()))
        uses->gradients.push_back(grad);
      continue;
    }
    auto read = dyn_cast<ReadOp>(op);
    GroupUses *uses = read ? groupOf(read.getSourceAttr()) : nullptr;
    if (!uses)
      continue;
    uses->reads.push_back(read);
    OpOperand *otherUse = nullptr; // uses are listed last first
    for (OpOperand &use : read.getResult().getUses()) {
      Type dtype = getCastDtype(use.getOwner());
      if (!uses->dtype)
        uses->dtype = dtype;
      if (dtype)
        uses->casts.push_back(cast<CallOp>(use.getOwner()));
      if (!dtype || dtype != uses->dtype)
        otherUse = &use;
    }
    if (!uses->otherUse)
      uses->otherUse = otherUse;
  }
}

/// `parameter @norm.weight is used as f32 by 'mul.Tensor' in module 'norm'`.
static std::string describeUse(OpOperand &use) {
  auto read = use.get().getDefiningOp<ReadOp>();
  std::string text = llvm::formatv("parameter @{0} is used as {1} by ", read.getSource(),
                                   getElementType(use.get()));
  if (auto call = dyn_cast<CallOp>(use.getOwner())) {
    text += "'" + call.getCallee().str() + "' in ";
    return text + (call.getModule().empty() ? "the root module"
                                            : "module '" + call.getModule().str() + "'");
  }
  return text + "'" + use.getOwner()->getName().getStringRef().str() + "'";
}

static Type getAskedDtype(GroupOp group) {
  MixedPrecisionAttr asked = group.getMixedPrecisionAttr();
  return asked ? asked.getParamDtype() : Type();
}

/// True if the step casts f32 parameters of the group to a dtype of fewer bits.
static bool isNarrowed(const GroupUses &uses) {
  if (uses.reads.empty())
    return false;
  ReadOp first = uses.reads.front();
  return getElementType(first.getResult()).isF32() && uses.dtype &&
         (uses.dtype.isBF16() || uses.dtype.isF16());
}

/// The dtype in which the group can be gathered; null for the parameters' own dtype. An error if
/// the user asks for another dtype.
FailureOr<Type> MixedPrecisionPass::findTravelDtype(GroupOp group, const GroupUses &uses) {
  if (group.getGatherDtype() || group.getReduceDtype())
    return group.emitError("group @")
           << group.getSymName()
           << " has its gather_dtype or reduce_dtype already, which this pass decides; what is "
              "asked for is mixed_precision";
  if (uses.reads.empty())
    return Type();
  if (Float8CastAttr cast = group.getFloat8CastAttr())
    return failed(checkFloat8Casts(step, group, float8)) ? FailureOr<Type>() : cast.getDtype();
  ReadOp first = uses.reads.front();
  Type own = getElementType(first.getResult());
  bool canNarrow = isNarrowed(uses) && !uses.otherUse;
  Type asked = getAskedDtype(group);
  if (asked == own || (!asked && !canNarrow))
    return Type();
  if (!asked || (canNarrow && uses.dtype == asked))
    return uses.dtype;
  InFlightDiagnostic diag = group.emitError("group @")
                            << group.getSymName() << " cannot be gathered as " << asked << ": ";
  if (uses.otherUse) {
    diag << describeUse(*uses.otherUse);
    diag.attachNote(uses.otherUse->getOwner()->getLoc()) << "used here";
  } else {
    diag << "its parameters are cast to " << uses.dtype;
  }
  diag.attachNote() << "a model of f32 parameters computes in another dtype if it is captured with "
                       "--param-dtype, or casts them itself";
  return diag;
}

/// The module that makes a value of the forward: the module of an operator or of a buffer; nullopt
/// for literals, inputs (which the capture casts) and parameters.
static std::optional<StringRef> getMaker(Value value, const Step &step, ModuleTree &tree) {
  if (auto call = value.getDefiningOp<CallOp>())
    return call.getModule();
  auto read = value.getDefiningOp<ReadOp>();
  if (!read || step.paramByName.contains(read.getSourceAttr().getAttr()))
    return std::nullopt;
  return tree.addHolder(read.getSource()).path;
}

/// FSDP2 casts floating-point arguments of each group's modules to param_dtype
/// (cast_forward_inputs). Here only fsdpc.export inserts such casts. So for other groups that ask
/// for a param_dtype, arguments of another floating dtype are an error.
LogicalResult MixedPrecisionPass::checkModuleInputs(ArrayRef<GroupOp> asked) {
  // For each module of a group: its name and dtype.
  llvm::StringMap<std::pair<StringRef, Type>> policyOf;
  for (GroupOp group : step.groups)
    if (!group.isPartOfBlock())
      for (auto module : group.getModules().getAsRange<StringAttr>())
        policyOf[module.getValue()] = {};
  for (GroupOp group : asked)
    for (auto module : group.getModules().getAsRange<StringAttr>())
      policyOf[module.getValue()] = {module.getValue(), getAskedDtype(group)};
  if (asked.empty())
    return success();
  DenseMap<StringAttr, std::pair<StringRef, Type>> innermost; // for each module of a call
  ModuleTree tree;
  auto getPolicy = [&](StringAttr module) {
    auto [it, isNew] = innermost.try_emplace(module);
    if (!isNew)
      return it->second;
    for (const Module *outer = &tree.add(module.getValue()); !outer->isRoot();
         outer = outer->parent)
      if (auto found = policyOf.find(outer->path); found != policyOf.end()) {
        it->second = found->second;
        break;
      }
    return it->second;
  };
  for (auto call : step.getBody().getOps<CallOp>()) {
    auto [module, dtype] = getPolicy(call.getModuleAttr());
    if (!dtype || call.getPhase() == aten::Phase::Backward)
      continue;
    for (Value operand : call.getOperands()) {
      Type element = getElementType(operand);
      std::optional<StringRef> maker = getMaker(operand, step, tree);
      if (!maker || !isa<FloatType>(element) || element == dtype ||
          tree.add(*maker).isIn(tree.add(module)))
        continue;
      InFlightDiagnostic diag = call.emitError("module '")
                                << module << "' takes " << element << " from outside, for '"
                                << call.getCallee() << "' in module '" << call.getModule()
                                << "'; with param_dtype " << dtype
                                << " FSDP2 casts floating-point arguments of a group's modules: "
                                   "cast it in the model";
      diag.attachNote(operand.getLoc()) << "made here";
      return diag;
    }
  }
  return success();
}

void MixedPrecisionPass::narrowGathers(GroupOp group, GroupUses &uses) {
  for (ReadOp read : uses.reads)
    read.getResult().setType(
        cast<RankedTensorType>(read.getResult().getType()).clone(*group.getGatherDtype()));
  for (CallOp cast : uses.casts) {
    cast.getResult(0).replaceAllUsesWith(cast.getOperand(0));
    cast.erase();
  }
  ++numNarrowed;
  numCastsRemoved += uses.casts.size();
}

/// Moves each cast of a gradient directly after the operator whose result it casts, and into that
/// operator's module. Autograd runs the casts that belong to parameters cast before the forward at
/// the end of the backward, outside of all modules, which is after their groups should be reduced.
static void advanceGradients(ArrayRef<GradOp> gradients) {
  for (GradOp grad : gradients) {
    auto cast = grad.getValue().getDefiningOp<CallOp>();
    if (!cast || !getCastDtype(cast))
      continue;
    if (auto source = cast->getOperand(0).getDefiningOp<CallOp>()) {
      cast->moveAfter(source);
      cast.setScopeAttr(source.getScopeAttr());
      grad->moveAfter(cast);
    }
  }
}

/// Moves the cast of a parameter to its first user, and into that user's module: there the group is
/// fetched, if it is on the host. The capture casts all parameters before the forward, so that
/// their modules would seem to begin there.
static void deferCast(CallOp cast) {
  Operation *first = nullptr;
  for (Operation *user : cast.getResult(0).getUsers())
    if (!first || user->isBeforeInBlock(first))
      first = user;
  if (!first)
    return;
  cast->moveBefore(first);
  if (auto call = dyn_cast<CallOp>(first); call && call.getPhase() == aten::Phase::Forward)
    cast.setScopeAttr(call.getScopeAttr());
}

/// Narrows the gathers if the group can be gathered in `dtype`, and records the reason if the user
/// asks for another dtype, or for none.
void MixedPrecisionPass::decideGathers(GroupOp group, GroupUses &uses, Type dtype) {
  Type asked = getAskedDtype(group);
  Decision decision{Subject::GatherDtype, "", ""};
  llvm::raw_string_ostream what(decision.what), reason(decision.reason);
  if (uses.reads.empty()) {
    if ((!asked || asked == step.getDtype(group)) && !group.getFloat8Cast())
      return;
    what << "is not gathered";
    reason << "the step does not read its parameters";
  } else if (group.getFloat8Cast()) {
    group.setGatherDtypeAttr(TypeAttr::get(dtype));
    numCastsRemoved += readAsFloat8(step, group, float8);
    ++numNarrowed;
    what << "is gathered as " << dtype;
    reason << "all uses of its parameters are casts to " << dtype
           << " by a scale of the largest absolute value, and gather_dtype asks for it";
  } else if (step.getShards(group) == 1) {
    // Parameters that are whole on a rank are not gathered: they are cast where their modules run.
    llvm::for_each(uses.casts, deferCast);
    if (!dtype || !asked)
      return;
    what << "is not gathered";
    reason << "a rank holds its parameters whole, which are cast to " << dtype
           << " where they are used";
  } else if (!dtype) {
    if (asked || !isNarrowed(uses))
      return;
    ReadOp first = uses.reads.front();
    what << "is gathered as " << getElementType(first.getResult()) << ", not " << uses.dtype;
    reason << describeUse(*uses.otherUse);
    decision.isMissed = true;
  } else {
    group.setGatherDtypeAttr(TypeAttr::get(dtype));
    narrowGathers(group, uses);
    if (asked)
      return;
    what << "is gathered as " << dtype;
    reason << "all uses of its parameters are casts to " << dtype;
  }
  recordDecision(group, decision, getArgument());
}

void MixedPrecisionPass::decideReductions(GroupOp group, GroupUses &uses) {
  MixedPrecisionAttr asked = group.getMixedPrecisionAttr();
  if (!asked || !asked.getDtypeOfReduction() || asked.getDtypeOfReduction() == step.getDtype(group))
    return;
  if (step.getTrained(group).empty()) {
    recordDecision(group, {Subject::ReduceDtype, "is not reduced", "its parameters are frozen"},
                   getArgument());
    return;
  }
  // An evaluation has no gradients, but records the dtype, too, since the layout of shards depends
  // on it.
  group.setReduceDtypeAttr(TypeAttr::get(asked.getDtypeOfReduction()));
  castGradients(group, uses);
}

/// True if sums of gradients leave out how the model itself rounds this value, as they leave out
/// how gradients are rounded to reduce_dtype.
static bool isTakenForRounded(GroupOp group, Value gradient) {
  return getUnrounded(group, gradient) != skipCopies(gradient);
}

/// Brings the gradients to reduce_dtype, by removing or inserting a cast.
void MixedPrecisionPass::castGradients(GroupOp group, GroupUses &uses) {
  Type dtype = *group.getReduceDtype();
  for (GradOp grad : uses.gradients) {
    Value value = grad.getValue();
    auto source = value.getDefiningOp<CallOp>();
    bool isCast = source && getCastDtype(source);
    if (isCast && getElementType(source.getOperand(0)) == dtype &&
        !isTakenForRounded(group, source.getOperand(0))) {
      grad.getValueMutable().assign(source.getOperand(0));
      if (source.use_empty())
        source.erase();
      ++numCastsRemoved;
      continue;
    }
    OpBuilder builder(grad);
    grad.getValueMutable().assign(
        aten::castTo(builder, grad.getLoc(), value, dtype, aten::Phase::Backward,
                     source ? source.getScopeAttr() : aten::ScopeAttr::get(&getContext(), "")));
  }
}

void MixedPrecisionPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(expectPhase(module, getArgument(), ModulePhase::Captured)))
    return signalPassFailure();
  FailureOr<Step> collected = Step::collect(module);
  if (failed(collected))
    return signalPassFailure();
  step = std::move(*collected);
  numNarrowed = numCastsRemoved = 0;
  collectUses();
  float8.clear();
  if (llvm::any_of(step.groups, [](GroupOp group) { return bool(group.getFloat8Cast()); }))
    float8 = findFloat8Casts(step);
  auto isExported = [&](GroupOp group) {
    return llvm::any_of(module.getOps<MixedPrecisionOp>(), [&](MixedPrecisionOp exported) {
      return exported.getModules() == group.getModules();
    });
  };
  SmallVector<GroupOp> asked;
  for (GroupOp group : step.groups)
    if (Type dtype = getAskedDtype(group);
        dtype && !dtype.isF32() && group.isBlock() && !isExported(group))
      asked.push_back(group);
  SmallVector<Type> dtypes;
  for (auto [group, uses] : llvm::zip_equal(step.groups, usesOf)) {
    FailureOr<Type> dtype = findTravelDtype(group, uses);
    if (failed(dtype))
      return signalPassFailure();
    dtypes.push_back(*dtype);
  }
  if (failed(checkModuleInputs(asked)))
    return signalPassFailure();
  for (auto [group, uses, dtype] : llvm::zip_equal(step.groups, usesOf, dtypes)) {
    advanceGradients(uses.gradients);
    decideReductions(group, uses);
    decideGathers(group, uses, dtype);
  }
  remark::analysis(module.getLoc(), remark::RemarkOpts::name("gathers").category(getArgument()))
      << remark::metric("GroupsNarrowed", numNarrowed)
      << remark::metric("CastsRemoved", numCastsRemoved);
}
