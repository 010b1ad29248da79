//===- RecomputeLadder.cpp - Steps towards more recomputation -------------===//

#include "passes/RecomputeLadder.h"

#include "fsdp/IR/TensorLayout.h"
#include "fsdp/Transforms/RecomputeBlocks.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Pipelines.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

namespace {

/// The cost of a block under one policy.
struct BlockCost {
  int64_t keptBytes = 0;  // kept from the forward for its backward, whichever block made them
  int64_t arenaBytes = 0; // the part of keptBytes that cannot be on the host
  double forwardNs = 0;
  double backwardNs = 0; // with recomputation
  double storeNs = 0;    // of the part that can be on the host, one way
};

constexpr RecomputePolicy kPolicies[] = {RecomputePolicy::Cheap, RecomputePolicy::Selected,
                                         RecomputePolicy::Full};
/// Stores that take up to this fraction of the forward's duration count as hidden.
constexpr double kHidden = 0.9;

/// A policy and a place for the activations.
struct Choice {
  size_t policy; // index into kPolicies
  bool isOffloaded;
  int64_t bytes;
  double ns;
};

/// Builds the ladder from the costs of all blocks.
class Climber {
public:
  /// `costs`: for each policy and group.
  Climber(ArrayRef<GroupOp> groups, ArrayRef<SmallVector<BlockCost>> costs,
          std::optional<RecomputePolicy> offloaded)
      : groups(groups), costs(costs), offloaded(offloaded) {}
  /// `none`: the costs if no block recomputes anything.
  SmallVector<RecomputeStep> run(ArrayRef<BlockCost> none);

private:
  bool mayBeOffloaded(GroupOp group) const {
    return offloaded && group.isBlock() && !group.getOffloadActivations();
  }
  void findHidden();
  SmallVector<Choice> listChoices(size_t group) const;
  void climb(size_t group);
  void sortFrom(size_t first);

  ArrayRef<GroupOp> groups;
  ArrayRef<SmallVector<BlockCost>> costs;
  const std::optional<RecomputePolicy> offloaded;
  SmallVector<size_t> hidden; // groups with the policy `offloaded` whose copies the forward hides
  SmallVector<RecomputeStep> steps;
};

} // namespace

static bool isFreeBlock(GroupOp group) { return group.isBlock() && !group.getRecompute(); }

SmallVector<GroupOp> fsdp::collectFreeBlocks(ModuleOp captured) {
  return llvm::filter_to_vector(captured.getOps<GroupOp>(), isFreeBlock);
}

SmallVector<RecomputeStep> fsdp::listCheapSteps(ModuleOp captured) {
  return llvm::map_to_vector(collectFreeBlocks(captured), [](GroupOp group) {
    return RecomputeStep{group.getSymNameAttr(), RecomputePolicy::Cheap};
  });
}

void fsdp::applySteps(ModuleOp captured, ArrayRef<RecomputeStep> steps) {
  DenseMap<StringAttr, RecomputeStep> stepOf; // the last step of each group
  for (const RecomputeStep &step : steps)
    stepOf[step.group] = step;
  for (GroupOp group : collectFreeBlocks(captured))
    group.setRecompute(RecomputePolicy::None);
  for (auto group : captured.getOps<GroupOp>()) {
    auto found = stepOf.find(group.getSymNameAttr());
    if (found == stepOf.end())
      continue;
    if (found->second.policy)
      group.setRecompute(*found->second.policy);
    if (found->second.isOffloaded)
      group.setActivations(StatePlace::Host);
  }
}

//===----------------------------------------------------------------------===//
// Costs of blocks
//===----------------------------------------------------------------------===//

/// The cost of each block of `blocks`, in a step after fsdp-recompute, fused or not.
static SmallVector<BlockCost> findCosts(Step &step, RecomputeBlocks &blocks,
                                        const cost::CostModel &costs) {
  SmallVector<BlockCost> result(step.groups.size() + 1);
  DenseMap<Value, Operation *> madeBy; // results of the forward and their views
  DenseSet<Value> kept;
  auto costOf = [&](aten::ScopeAttr scope) -> BlockCost & {
    return result[blocks[blocks.find(scope.getModule())].group];
  };
  // A value that several blocks use counts for the first of them in the backward.
  auto keep = [&](Value value, BlockCost &cost) {
    auto isView = [](Operation *op) {
      auto call = dyn_cast_if_present<CallOp>(op);
      return call && call.isView() && !call.getOperands().empty();
    };
    while (isView(madeBy.lookup(value)))
      value = madeBy.lookup(value)->getOperand(0);
    if (!madeBy.contains(value) || !kept.insert(value).second)
      return;
    const int64_t bytes = getStorageBytes(cast<RankedTensorType>(value.getType()));
    cost.keptBytes += bytes;
    if (bytes >= kLeastOffloadedBytes)
      cost.storeNs += costs.getHostCopyCost(bytes).durationNs;
    else
      cost.arenaBytes += bytes;
  };
  auto visit = [&](auto op) {
    BlockCost &cost = costOf(op.getScope());
    const double ns = costs.getCost(op).durationNs; // 0 for a view
    if (op.getPhase() == aten::Phase::Forward) {
      for (Value made : op->getResults())
        madeBy[made] = op;
      cost.forwardNs += ns;
      return;
    }
    for (Value operand : op->getOperands())
      keep(operand, cost);
    cost.backwardNs += ns;
  };
  for (Operation &op : step.getBody()) {
    if (auto call = dyn_cast<CallOp>(op))
      visit(call);
    else if (auto launch = dyn_cast<LaunchOp>(op))
      visit(launch);
  }
  return result;
}

/// The costs of all groups if each free block follows `policy`.
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
  // Collectives are inserted since kernels end at them. Remarks of fsdp-fuse are dropped, since
  // they are about the final step.
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

//===----------------------------------------------------------------------===//
// The ladder
//===----------------------------------------------------------------------===//

/// The numbers below `count` in an order whose every prefix is spread evenly: numbers with more
/// trailing zero bits come first.
static SmallVector<size_t> spread(size_t count) {
  SmallVector<size_t> order;
  for (size_t stride = llvm::PowerOf2Ceil(count); stride > 0; stride /= 2)
    for (size_t number = 0; number < count; number += stride)
      if (stride == llvm::PowerOf2Ceil(count) || number % (2 * stride) != 0)
        order.push_back(number);
  return order;
}

void Climber::findHidden() {
  if (!offloaded)
    return;
  const size_t policy = llvm::find(kPolicies, *offloaded) - std::begin(kPolicies);
  const size_t full = std::size(kPolicies) - 1;
  SmallVector<size_t> blocks;
  double roomNs = 0;
  for (auto [index, group] : llvm::enumerate(groups)) {
    roomNs += kHidden * costs[policy][index].forwardNs;
    if (!mayBeOffloaded(group))
      continue;
    blocks.push_back(index);
    roomNs -= costs[full][index].storeNs;
  }
  for (size_t number : spread(blocks.size())) {
    const size_t index = blocks[number];
    const double moreNs = costs[policy][index].storeNs - costs[full][index].storeNs;
    if (moreNs > roomNs)
      continue;
    roomNs -= moreNs;
    hidden.push_back(index);
  }
}

/// The choices of a block. The first one is its initial choice.
SmallVector<Choice> Climber::listChoices(size_t index) const {
  GroupOp group = groups[index];
  const size_t numPolicies = isFreeBlock(group) ? std::size(kPolicies) : 1;
  const bool isHidden = llvm::is_contained(hidden, index);
  SmallVector<Choice> choices;
  for (bool isOffloaded : {false, true})
    for (size_t policy = 0; policy < numPolicies; ++policy) {
      const BlockCost &cost = costs[policy][index];
      if (!isOffloaded)
        choices.push_back({policy, false, cost.keptBytes, cost.backwardNs});
      else if (mayBeOffloaded(group)) {
        const bool isFree = kPolicies[policy] == RecomputePolicy::Full ||
                            (isHidden && kPolicies[policy] == *offloaded);
        choices.push_back(
            {policy, true, cost.arenaBytes, cost.backwardNs + (isFree ? 0 : cost.storeNs)});
      }
    }
  return choices;
}

/// Adds the steps of one block. Each step goes to the choice, among those that keep less, with the
/// least time per byte saved.
void Climber::climb(size_t index) {
  SmallVector<Choice> choices = listChoices(index);
  for (Choice current = choices.front(); !current.isOffloaded;) {
    std::optional<Choice> best;
    RecomputeStep step;
    for (const Choice &next : choices) {
      const int64_t savedBytes = current.bytes - next.bytes;
      const double addedNs = std::max(0.0, next.ns - current.ns);
      const double nsPerByte = addedNs / static_cast<double>(savedBytes);
      if (savedBytes <= 0 || (best && nsPerByte >= step.nsPerByte))
        continue;
      best = next;
      GroupOp group = groups[index];
      step = {group.getSymNameAttr(),
              isFreeBlock(group) ? std::optional(kPolicies[next.policy]) : std::nullopt,
              next.isOffloaded, addedNs, nsPerByte};
    }
    if (!best)
      return;
    steps.push_back(step);
    current = *best;
  }
}

void Climber::sortFrom(size_t first) {
  // The costs of equal blocks differ only in their last bits, so they are compared in single
  // precision.
  llvm::stable_sort(MutableArrayRef(steps).drop_front(first),
                    [](const RecomputeStep &a, const RecomputeStep &b) {
                      return static_cast<float>(a.nsPerByte) < static_cast<float>(b.nsPerByte);
                    });
}

SmallVector<RecomputeStep> Climber::run(ArrayRef<BlockCost> none) {
  for (auto [index, group] : llvm::enumerate(groups)) {
    if (!isFreeBlock(group))
      continue;
    const BlockCost &cheap = costs.front()[index];
    const int64_t savedBytes = none[index].keptBytes - cheap.keptBytes;
    const double addedNs = std::max(0.0, cheap.backwardNs - none[index].backwardNs);
    steps.push_back({GroupOp(group).getSymNameAttr(), RecomputePolicy::Cheap, false, addedNs,
                     savedBytes > 0 ? addedNs / static_cast<double>(savedBytes)
                                    : std::numeric_limits<float>::max()});
  }
  sortFrom(0);
  const size_t numCheap = steps.size();
  findHidden();
  for (size_t index : hidden)
    climb(index);
  for (auto [index, group] : llvm::enumerate(groups))
    if ((isFreeBlock(group) || mayBeOffloaded(group)) && !llvm::is_contained(hidden, index))
      climb(index);
  sortFrom(numCheap);
  return std::move(steps);
}

FailureOr<SmallVector<RecomputeStep>>
fsdp::findRecomputeLadder(ModuleOp captured, const cost::CostModel &costs, FusionChoice fusion,
                          std::optional<RecomputePolicy> offloaded) {
  FailureOr<Step> step = Step::collect(captured);
  if (failed(step))
    return failure();
  if (collectFreeBlocks(captured).empty() && !offloaded)
    return SmallVector<RecomputeStep>();
  FailureOr<SmallVector<BlockCost>> none =
      tryPolicy(captured, RecomputePolicy::None, costs, fusion);
  if (failed(none))
    return failure();
  SmallVector<SmallVector<BlockCost>> byPolicy;
  for (RecomputePolicy policy : kPolicies) {
    FailureOr<SmallVector<BlockCost>> found = tryPolicy(captured, policy, costs, fusion);
    if (failed(found))
      return failure();
    byPolicy.push_back(std::move(*found));
  }
  return Climber(step->groups, byPolicy, offloaded).run(*none);
}
