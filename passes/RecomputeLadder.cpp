//===- RecomputeLadder.cpp - What recomputing a little more costs ---------===//

#include "passes/RecomputeLadder.h"

#include "fsdp/IR/TensorLayout.h"
#include "fsdp/Transforms/RecomputeBlocks.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Pipelines.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

namespace {

/// What a block costs under one policy.
struct BlockCost {
  int64_t keptBytes = 0; // from the forward for its backward, whichever block made it
  double backwardNs = 0; // with what is computed again
};

constexpr RecomputePolicy kPolicies[] = {RecomputePolicy::Cheap, RecomputePolicy::Selected,
                                         RecomputePolicy::Full};

} // namespace

static bool isFreeBlock(GroupOp group) { return group.isBlock() && !group.getRecompute(); }

SmallVector<GroupOp> fsdp::collectFreeBlocks(ModuleOp captured) {
  return llvm::filter_to_vector(captured.getOps<GroupOp>(), isFreeBlock);
}

void fsdp::applySteps(ModuleOp captured, ArrayRef<RecomputeStep> steps) {
  DenseMap<StringAttr, RecomputePolicy> policyOf;
  for (const RecomputeStep &step : steps)
    policyOf[step.group] = step.policy;
  for (auto group : captured.getOps<GroupOp>())
    if (auto found = policyOf.find(group.getSymNameAttr()); found != policyOf.end())
      group.setRecompute(found->second);
}

/// By block of `blocks`, in a step behind fsdp-recompute, fused or not.
static SmallVector<BlockCost> findCosts(Step &step, RecomputeBlocks &blocks,
                                        const cost::CostModel &costs) {
  SmallVector<BlockCost> result(step.groups.size() + 1);
  DenseMap<Value, Operation *> madeBy; // results of the forward and their views
  DenseSet<Value> kept;
  auto costOf = [&](aten::ScopeAttr scope) -> BlockCost & {
    return result[blocks[blocks.find(scope.getModule())].group];
  };
  // What several blocks use counts for the first of them to run backward.
  auto keep = [&](Value value, BlockCost &cost) {
    auto isView = [](Operation *op) {
      auto call = dyn_cast_if_present<CallOp>(op);
      return call && call.isView() && !call.getOperands().empty();
    };
    while (isView(madeBy.lookup(value)))
      value = madeBy.lookup(value)->getOperand(0);
    if (madeBy.contains(value) && kept.insert(value).second)
      cost.keptBytes += getStorageBytes(cast<RankedTensorType>(value.getType()));
  };
  auto visit = [&](auto op) {
    if (op.getPhase() == aten::Phase::Forward) {
      for (Value made : op->getResults())
        madeBy[made] = op;
      return;
    }
    BlockCost &cost = costOf(op.getScope());
    for (Value operand : op->getOperands())
      keep(operand, cost);
    cost.backwardNs += costs.getCost(op).durationNs; // of a view 0
  };
  for (Operation &op : step.getBody()) {
    if (auto call = dyn_cast<CallOp>(op))
      visit(call);
    else if (auto launch = dyn_cast<LaunchOp>(op))
      visit(launch);
  }
  return result;
}

/// The costs of all groups where each free block follows `policy`.
static FailureOr<SmallVector<BlockCost>> tryPolicy(ModuleOp captured, RecomputePolicy policy,
                                                   const cost::CostModel &costs,
                                                   FusionChoice fusion) {
  OwningOpRef<ModuleOp> changed = captured.clone();
  for (GroupOp group : collectFreeBlocks(*changed))
    group.setRecompute(policy);
  PassManager manager(captured.getContext());
  addRecompute(manager, {});
  if (failed(manager.run(*changed)))
    return failure();
  FailureOr<Step> step = Step::collect(*changed);
  if (failed(step))
    return failure();
  FailureOr<RecomputeBlocks> blocks =
      RecomputeBlocks::build(*step, {RecomputePolicy::Cheap, {}}, {}, RecomputePolicy::Full);
  if (failed(blocks))
    return failure();
  // Kernels end where collectives are. What fsdp-fuse remarks is of the final step.
  ScopedDiagnosticHandler errors(captured.getContext(), [](Diagnostic &diag) {
    return success(diag.getSeverity() == DiagnosticSeverity::Remark);
  });
  PassManager fuse(captured.getContext());
  fuse.addPass(createInsertCollectives());
  fuse.addPass(createFuse({.fusion = fusion}));
  if (failed(fuse.run(*changed)) || failed(step = Step::collect(*changed)))
    return failure();
  return findCosts(*step, *blocks, costs);
}

/// Adds the steps of one block. Each goes to that policy, of those that keep less, which takes the
/// least time for each byte saved.
static void climb(GroupOp group, ArrayRef<BlockCost> costOf,
                  SmallVectorImpl<RecomputeStep> &steps) {
  for (size_t current = 0;;) {
    std::optional<size_t> best;
    double bestNs = 0, bestNsPerByte = 0;
    for (size_t next = current + 1; next < costOf.size(); ++next) {
      const int64_t savedBytes = costOf[current].keptBytes - costOf[next].keptBytes;
      const double addedNs = std::max(0.0, costOf[next].backwardNs - costOf[current].backwardNs);
      const double nsPerByte = addedNs / static_cast<double>(savedBytes);
      if (savedBytes > 0 && (!best || nsPerByte < bestNsPerByte)) {
        best = next;
        bestNs = addedNs;
        bestNsPerByte = nsPerByte;
      }
    }
    if (!best)
      return;
    steps.push_back({group.getSymNameAttr(), kPolicies[*best], bestNs, bestNsPerByte});
    current = *best;
  }
}

FailureOr<SmallVector<RecomputeStep>>
fsdp::findRecomputeLadder(ModuleOp captured, const cost::CostModel &costs, FusionChoice fusion) {
  FailureOr<Step> step = Step::collect(captured);
  if (failed(step))
    return failure();
  if (collectFreeBlocks(captured).empty())
    return SmallVector<RecomputeStep>();
  SmallVector<SmallVector<BlockCost>> byPolicy;
  for (RecomputePolicy policy : kPolicies) {
    FailureOr<SmallVector<BlockCost>> found = tryPolicy(captured, policy, costs, fusion);
    if (failed(found))
      return failure();
    byPolicy.push_back(std::move(*found));
  }
  SmallVector<RecomputeStep> steps;
  for (auto [index, group] : llvm::enumerate(step->groups))
    if (isFreeBlock(group))
      climb(group, llvm::map_to_vector(byPolicy, [&](auto &costOf) { return costOf[index]; }),
            steps);
  // Alike blocks of a model differ in the last bits of their costs only.
  llvm::stable_sort(steps, [](const RecomputeStep &a, const RecomputeStep &b) {
    return static_cast<float>(a.nsPerByte) < static_cast<float>(b.nsPerByte);
  });
  return steps;
}
