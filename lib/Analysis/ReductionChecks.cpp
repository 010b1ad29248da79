//===- ReductionChecks.cpp - Checks of gradients and updates --------------===//

#include "fsdp/Analysis/ShardingChecks.h"

#include "fsdp/Analysis/GradientDivision.h"
#include "fsdp/Analysis/GradientRounding.h"

#include "ShardingDiagnostics.h"
#include "fsdp/IR/VisitByClass.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

namespace {

/// What the step has done so far with a group's gradients.
struct GroupState {
  SmallVector<Operation *> reductions; // reduce-scatters, or on one rank fsdp.packs, in order
  bool isReducedAcross = false;        // over the replicas
  UpdateOp update;
};

class Checker {
public:
  explicit Checker(Step &step)
      : step(step), microbatches(step.getMicrobatches()), groups(step.groups.size()) {}
  LogicalResult run();

private:
  LogicalResult visit(ReduceScatterStartOp start);
  LogicalResult visit(PackOp pack);
  LogicalResult visit(AllReduceStartOp start);
  LogicalResult visit(AccumulateOp sum);
  LogicalResult visit(AllReduceHookOp hook);
  LogicalResult visit(UpdateOp update);
  LogicalResult visit(GradOp grad);
  LogicalResult checkDivisions();
  LogicalResult checkRounding(FlatSymbolRefAttr group, ValueRange gradients);
  LogicalResult noteReduction(Operation *op, FlatSymbolRefAttr group, StringRef what);
  LogicalResult checkReduced(UpdateOp update);
  LogicalResult checkEnd();
  GradientDivision getDivision(FlatSymbolRefAttr group, Type payload) {
    GroupOp op = lookup(group);
    return getGradientDivision(op, cast<ShardType>(payload).getElementType(), step.getShards(op),
                               step.getReplicas(op));
  }
  GroupOp lookup(FlatSymbolRefAttr group) {
    return step.groups[step.groupByName.lookup(group.getAttr())];
  }
  bool isSharded(GroupOp group) { return step.getShards(group) > 1; }
  bool isReplicated(GroupOp group) { return step.getReplicas(group) > 1; }
  GroupState &getState(FlatSymbolRefAttr group) {
    return groups[step.groupByName.lookup(group.getAttr())];
  }

  Step &step;
  int64_t microbatches;
  SmallVector<GroupState> groups;
  DenseMap<Value, Operation *> reducedAcross; // by handle or shard
};

} // namespace

//===----------------------------------------------------------------------===//
// The summands of a gradient
//===----------------------------------------------------------------------===//

/// A summand of an update's gradient: the result of one reduction.
struct ReducedPart {
  Operation *reduction; // null: it is no result of a reduction
  bool isAcross;        // reduced over the replicas, too
  bool isHooked;        // passed to the group's all_reduce_hook after the last reduction
  Operation *source;    // for messages
};

/// The reductions whose sum is `value`, in the order of addition.
static void collectParts(Value value, bool isAcross, SmallVectorImpl<ReducedPart> &parts,
                         bool isHooked = false) {
  Operation *source = skipHostCopies(value).getDefiningOp();
  if (auto hook = dyn_cast<AllReduceHookOp>(source); hook && !isHooked && !isAcross) {
    collectParts(hook.getSource(), isAcross, parts, /*isHooked=*/true);
  } else if (auto sum = dyn_cast<AccumulateOp>(source)) {
    collectParts(sum.getSum(), isAcross, parts, isHooked);
    collectParts(sum.getGradient(), isAcross, parts, isHooked);
  } else if (auto cast = dyn_cast<CastOp>(source)) {
    collectParts(cast.getSource(), isAcross, parts, isHooked);
  } else if (auto wait = dyn_cast<ReduceScatterWaitOp>(source)) {
    parts.push_back({wait.getStart(), isAcross, isHooked, source});
  } else if (auto wait = dyn_cast<AllReduceWaitOp>(source)) {
    Value reduced = wait.getStart().getSource();
    if (isa<ShardType>(reduced.getType()) && !isAcross)
      collectParts(reduced, /*isAcross=*/true, parts, isHooked);
    else if (auto start = reduced.getDefiningOp<ReduceScatterStartOp>(); start && !isAcross)
      parts.push_back({start, true, isHooked, source});
    else
      parts.push_back({nullptr, true, isHooked, source});
  } else {
    parts.push_back({dyn_cast<PackOp>(source), isAcross, isHooked, source});
  }
}

/// True if a shard is a sum of reductions only.
static bool isGradient(Value shard) {
  SmallVector<ReducedPart> parts;
  collectParts(shard, /*isAcross=*/false, parts);
  return llvm::all_of(parts, [](const ReducedPart &part) { return part.reduction; });
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

LogicalResult Checker::visit(ReduceScatterStartOp start) {
  std::string name = ("group @" + start.getGroup()).str();
  if (GroupOp group = lookup(start.getGroupAttr()); !isSharded(group))
    return fail(start, "S5: " + name + " is reduced over shards, but each rank has all of it",
                step.getMesh(group), "the mesh is declared here");
  Reduction expected = getDivision(start.getGroupAttr(), start.getPayload()).scatter;
  if (Reduction reduction = getReduction(start); reduction != expected)
    return fail(start,
                "S4: the gradients of " + name + " are reduced by " + describe(reduction) +
                    ", expected " + describe(expected),
                nullptr, "");
  if (failed(checkRounding(start.getGroupAttr(), start.getGrads())))
    return failure();
  return noteReduction(start, start.getGroupAttr(), "reduced");
}

/// Only the first summand is rounded to the dtype of the sum.
LogicalResult Checker::checkRounding(FlatSymbolRefAttr name, ValueRange gradients) {
  GroupOp group = lookup(name);
  for (Value gradient : gradients)
    for (auto sum = gradient.getDefiningOp<AccumulateOp>(); sum;
         sum = sum.getSum().getDefiningOp<AccumulateOp>())
      if (Value added = skipCopies(sum.getGradient()); getUnrounded(group, added) != added)
        return fail(sum,
                    "S4: a gradient of group @" + name.getValue() +
                        " is rounded before the addition; only the sum is rounded",
                    added.getDefiningOp(), "rounded here");
  return success();
}

/// Refuses factors that FSDP2 cannot express.
LogicalResult Checker::checkDivisions() {
  for (GroupOp group : step.groups)
    if (std::optional<std::string> problem = checkGradientDivision(step, group))
      return fail(group, "S4: group @" + group.getSymName() + ": " + *problem, nullptr, "");
  return success();
}

/// At most one reduction per microbatch. S9 proves which gradients it takes.
LogicalResult Checker::noteReduction(Operation *op, FlatSymbolRefAttr group, StringRef what) {
  GroupState &state = getState(group);
  if (static_cast<int64_t>(state.reductions.size()) == microbatches)
    return fail(op,
                "S4: the gradients of group @" + group.getValue() + " are " + what +
                    (microbatches == 1
                         ? Twine(" twice")
                         : " more often than there are microbatches, " + Twine(microbatches)),
                state.reductions.back(), (what + " here").str());
  if (state.update)
    return fail(op,
                "S4: the gradients of group @" + group.getValue() + " are " + what +
                    " after its update",
                state.update, "updated here");
  state.reductions.push_back(op);
  return success();
}

/// The target of an in-place addition is a gradient that no other operation reads.
LogicalResult Checker::visit(AccumulateOp sum) {
  Operation *source = sum.getSum().getDefiningOp();
  auto uses = dyn_cast<StepOpInterface>(source);
  bool isTensor = isa<RankedTensorType>(sum.getSum().getType());
  bool isOwn = isTensor ? isa<AccumulateOp>(source) ||
                              (uses && uses.getMadeCategory(cast<OpResult>(sum.getSum())) ==
                                           BufferCategory::Activation)
                        : isGradient(sum.getSum());
  if (isOwn && sum.getSum().hasOneUse())
    return success();
  return fail(sum,
              "S4: the target of an addition of gradients is not a gradient, or is used elsewhere",
              source, "the value is made here");
}

/// A hook takes the result of one reduction, before any cast or addition. It writes in place, so no
/// other operation may read the gradient.
LogicalResult Checker::visit(AllReduceHookOp hook) {
  Operation *source = hook.getSource().getDefiningOp();
  std::string name = "group @" + hook.getSource().getType().getGroup().getValue().str();
  auto inStep = cast<StepOpInterface>(source);
  if (inStep.getRole() != StepRole::CollectiveWait && inStep.getPacked().empty())
    return fail(
        hook, "S4: the hook of " + name + " is called on a tensor that is not a reduction's result",
        source, "made here");
  if (hook.getSource().hasOneUse())
    return success();
  return fail(hook, "S4: the hook of " + name + " writes to a gradient that is used elsewhere",
              source, "the gradient is made here");
}

LogicalResult Checker::visit(PackOp pack) {
  if (GroupOp group = lookup(pack.getGroupAttr()); isSharded(group))
    return fail(pack,
                "S5: the gradients of group @" + pack.getGroup() + " are not reduced over " +
                    Twine(step.getShards(group)) + " ranks",
                step.getMesh(group), "the mesh is declared here");
  if (failed(checkRounding(pack.getGroupAttr(), pack.getGrads())) ||
      failed(noteReduction(pack, pack.getGroupAttr(), "packed")))
    return failure();
  double expected = getDivision(pack.getGroupAttr(), pack.getResult().getType()).alone;
  if (double divisor = pack.getDivisor(); divisor != expected) {
    std::string text;
    llvm::raw_string_ostream(text) << llvm::format("divided by %g, expected %g", divisor, expected);
    return fail(pack, "S4: the gradients of group @" + pack.getGroup() + " are " + text, nullptr,
                "");
  }
  return success();
}

LogicalResult Checker::visit(AllReduceStartOp start) {
  FlatSymbolRefAttr group = CollectiveOpInterface(start).getCollectiveGroup();
  if (step.getWorldSize() == 1)
    return fail(start, "S5: a tensor is reduced on a mesh of one rank", step.meshes.front(),
                "the mesh is declared here");
  if (!group) {
    if (start.getSource().hasOneUse())
      return success();
    return fail(start, "S4: a tensor that is used elsewhere is reduced in place",
                start.getSource().getDefiningOp(), "the tensor is made here");
  }
  std::string name = ("group @" + group.getValue()).str();
  if (GroupOp op = lookup(group); !isReplicated(op))
    return fail(start, "S5: " + name + " is reduced over replicas on a mesh without",
                step.getMesh(op), "the mesh is declared here");
  if (isa<ShardType>(start.getSource().getType()) && !isGradient(start.getSource()))
    return fail(start,
                "S4: a tensor that is no gradient of " + name + " is reduced over the replicas",
                start.getSource().getDefiningOp(), "it is made here");
  if (isa<ShardType>(start.getSource().getType()) && !start.getSource().hasOneUse())
    return fail(start, "S4: the gradients of " + name + " are reduced in place, but used elsewhere",
                start.getSource().getDefiningOp(), "they are made here");
  auto [known, isNew] = reducedAcross.try_emplace(start.getSource(), start);
  if (!isNew)
    return fail(start, "S4: the gradients of " + name + " are reduced over the replicas twice",
                known->second, "reduced here");
  Reduction expected = getDivision(group, start.getPayload()).across;
  if (Reduction reduction = getReduction(start); reduction != expected)
    return fail(start,
                "S4: the gradients of " + name + " are reduced over the replicas by " +
                    describe(reduction) + ", expected " + describe(expected),
                nullptr, "");
  getState(group).isReducedAcross = true;
  return success();
}

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

/// The gradient of an update is the sum over all microbatches, each averaged over all ranks. Its
/// type guarantees that it belongs to the update's group.
LogicalResult Checker::checkReduced(UpdateOp update) {
  Value gradient = update.getGradient();
  std::string name = ("group @" + update.getTarget()).str();
  if (!gradient)
    return fail(update, "S4: " + name + " is updated without a gradient", nullptr, "");
  SmallVector<ReducedPart> parts;
  collectParts(gradient, /*isAcross=*/false, parts);
  GroupOp group = lookup(update.getTargetAttr());
  for (const ReducedPart &part : parts)
    if (!part.reduction || part.isAcross != isReplicated(group))
      return fail(
          update,
          "S4: " + name +
              " is updated with a value that is not its gradient's average over all ranks (" +
              Twine(step.getWorldSize()) + ")",
          part.source, "made here");
  for (const ReducedPart &part : parts)
    if (group.getAllReduceHook() && !part.isHooked)
      return fail(update,
                  "S4: " + name + " is updated with a gradient on which its all_reduce_hook '" +
                      *group.getAllReduceHook() + "' is not called",
                  part.source, "the gradient is made here");
  ArrayRef<Operation *> reductions = getState(update.getTargetAttr()).reductions;
  if (llvm::equal(reductions,
                  llvm::map_range(parts, [](const ReducedPart &part) { return part.reduction; })))
    return success();
  return fail(update,
              "S4: " + name + " is updated with the sum of " + Twine(parts.size()) + " of its " +
                  Twine(reductions.size()) +
                  " reductions; expected each of them once, in their order",
              gradient.getDefiningOp(), "made here");
}

LogicalResult Checker::visit(UpdateOp update) {
  auto it = step.groupByName.find(update.getTargetAttr().getAttr());
  if (it == step.groupByName.end())
    return fail(update,
                "S4: parameter @" + update.getTarget() +
                    " is updated; a sharded step updates groups",
                nullptr, "");
  GroupState &state = groups[it->second];
  std::string name = ("group @" + update.getTarget()).str();
  if (state.update)
    return fail(update, "S4: " + name + " is updated twice", state.update, "updated here");
  if (failed(checkReduced(update)))
    return failure();
  auto expectInput = [&](Value value, StringRef input) -> LogicalResult {
    auto from = value.getDefiningOp<InputOp>();
    if (from && from.getName() == input)
      return success();
    return fail(update,
                "S4: " + name + " takes its " + input + " from elsewhere than input \"" + input +
                    "\"",
                value.getDefiningOp(), "made here");
  };
  if (failed(expectInput(update.getStep(), "step")) || failed(expectInput(update.getLr(), "lr")))
    return failure();
  state.update = update;
  return success();
}

LogicalResult Checker::visit(GradOp grad) {
  return fail(grad,
              "S5: the gradient of parameter @" + grad.getParam() +
                  " is declared outside of its group; a sharded step reduces or packs the "
                  "gradients of a group",
              nullptr, "");
}

LogicalResult Checker::checkEnd() {
  for (auto [group, state] : llvm::zip_equal(step.groups, groups)) {
    if (step.getTrained(group).empty() || step.isEvaluation())
      continue;
    std::string name = ("group @" + group.getSymName()).str();
    if (state.reductions.empty())
      return fail(group, "S4: the gradients of " + name + " are never reduced", nullptr, "");
    if (isReplicated(group) && !state.isReducedAcross)
      return fail(group,
                  "S4: the gradients of " + name + " are never reduced over the " +
                      Twine(step.getReplicas(group)) + " replicas",
                  nullptr, "");
    if (!state.update)
      return fail(group, "S4: " + name + " is never updated", nullptr, "");
  }
  return success();
}

/// True for operations of training only: packing, adding or reading gradients, writing state.
static bool isOfTraining(Operation &op) {
  auto inStep = dyn_cast<StepOpInterface>(op);
  return isa<AccumulateOp>(op) ||
         (inStep && (inStep.getRole() == StepRole::Reader || !inStep.getPacked().empty() ||
                     inStep.getOverwritten()));
}

LogicalResult Checker::run() {
  if (failed(checkDivisions()))
    return failure();
  for (Operation &op : step.getBody()) {
    if (step.isEvaluation() && isOfTraining(op))
      return fail(&op, "S4: an evaluation reduces no gradients, updates and writes nothing",
                  nullptr, "");
    LogicalResult result = success();
    visitByClass(
        &op, [&](auto known)
          requires requires { visit(known); }
        { result = visit(known); });
    if (failed(result))
      return failure();
  }
  return checkEnd();
}

LogicalResult fsdp::checkReductions(Step &step) { return Checker(step).run(); }
