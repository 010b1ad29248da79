//===- FusionCopies.cpp - Values that a kernel recomputes -----------------===//

#include "fsdp/Codegen/KernelShape.h"
#include "fsdp/Codegen/Rearrangement.h"
#include "fsdp/Codegen/ScalarCode.h"
#include "fsdp/CostModel/OperatorWork.h"
#include "passes/FusionClusters.h"
#include "passes/FusionLimits.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

static int64_t getBytes(Value value) {
  return cost::getMovedBytes(cast<RankedTensorType>(value.getType()));
}

static bool isOfRows(Value value) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
  return shape.empty() || shape.back() == 1;
}

/// The value behind views that regroup rows: a kernel can compute `value` from it.
static Value skipRegrouping(Value value) {
  for (auto call = value.getDefiningOp<CallOp>(); call && codegen::isRowRegrouping(call);
       call = value.getDefiningOp<CallOp>())
    value = call.getOperand(0);
  return value;
}

/// Calls `visit` for each reader of the value, through views that regroup rows: a reader may
/// recompute the value instead.
static void forKernelReaders(Value value, function_ref<void(Operation *)> visit) {
  for (Operation *user : value.getUsers()) {
    auto call = dyn_cast<CallOp>(user);
    if (call && codegen::isRowRegrouping(call))
      forKernelReaders(call.getResult(0), visit);
    else
      visit(user);
  }
}

/// True if a member of the cluster reads the value.
bool FusionClusters::reads(Number cluster, Value value) const {
  bool isRead = false;
  forKernelReaders(value,
                   [&](Operation *user) { isRead |= clusters[cluster].members.contains(user); });
  return isRead;
}

bool FusionClusters::canCopy(CallOp call) const {
  return isFusible(call) && !isOfRows(call.getResult(0)) &&
         (codegen::isElementwise(call, rounding) || codegen::isRowOperator(call, rounding));
}

/// True if a kernel may read `leaf` in a later window than that of `from`: either the windows are
/// equal, or `leaf` is a value of the model that nothing overwrites or frees.
bool FusionClusters::canOutlive(Value leaf, CallOp from, Number reader) const {
  unsigned window = windowBegins[getPosition(from)];
  if (window == windowBegins[getPosition(clusters[reader].calls.back())])
    return true;
  Value root = getRoot(leaf);
  if (!isa_and_nonnull<CallOp, InputOp, aten::ConstantOp>(root.getDefiningOp()))
    return false;
  bool isPlain = true;
  forReaders(root, [&](Operation *user) { isPlain &= isa<CallOp, func::ReturnOp>(user); });
  return isPlain;
}

unsigned FusionClusters::getLastUse(Value value) const {
  unsigned last = 0;
  forReaders(getRoot(value), [&](Operation *user) { last = std::max(last, getPosition(user)); });
  return last;
}

/// True if the value is stored in memory anyway: it has a reader outside of the clusters that
/// compute it.
bool FusionClusters::isStored(Value value) const {
  Operation *def = value.getDefiningOp();
  bool isStored = false;
  forKernelReaders(value, [&](Operation *user) {
    auto found = holders.find(user);
    isStored |= found == holders.end() || llvm::any_of(found->second, [&](Number holder) {
                  return !clusters[holder].members.contains(def);
                });
  });
  return isStored;
}

bool FusionClusters::collectCopies(CallOp call, Number reader,
                                   llvm::SmallSetVector<CallOp, 8> &calls,
                                   llvm::SmallSetVector<Value, 8> &leaves) const {
  const FusionCluster &cluster = clusters[reader];
  auto type = cast<RankedTensorType>(call.getResult(0).getType());
  if (codegen::flattenRows(type.getShape()) != codegen::flattenRows(cluster.domain))
    return false;
  calls.insert(call);
  if (cluster.calls.size() + calls.size() > kMostFusedCalls)
    return false;
  for (Value operand : call.getOperands()) {
    Value shown = skipRegrouping(operand);
    auto source = shown.getDefiningOp<CallOp>();
    if (source && (cluster.members.contains(source) || calls.contains(source)))
      continue;
    if (reads(reader, shown))
      continue;
    if (source && canCopy(source) && !isStored(shown)) {
      if (!collectCopies(source, reader, calls, leaves))
        return false;
      continue;
    }
    if (!canOutlive(operand, call, reader))
      return false;
    leaves.insert(operand);
  }
  return true;
}

void FusionClusters::considerCopies(CallOp call) {
  Value value = call.getResult(0);
  llvm::SmallSetVector<Number, 4> readers;
  bool isReadByOthers = false;
  unsigned lastOther = 0, firstReader = operations.size();
  forKernelReaders(value, [&](Operation *user) {
    auto found = holders.find(user);
    if (found == holders.end()) {
      auto view = dyn_cast<CallOp>(user);
      isReadByOthers = true;
      lastOther = std::max(lastOther, view && view.isView() ? getLastUse(view.getResult(0))
                                                            : getPosition(user));
      return;
    }
    for (Number holder : found->second)
      if (!clusters[holder].members.contains(call)) {
        readers.insert(holder);
        firstReader = std::min(firstReader, getPosition(user));
      }
  });
  const int64_t bytes = getBytes(value);
  struct Plan {
    Number reader;
    llvm::SmallSetVector<CallOp, 8> calls;
    llvm::SmallSetVector<Value, 8> leaves;
    // Bytes that are no longer moved; bytes of leaves that stay in memory longer.
    int64_t saved, kept;
  };
  SmallVector<Plan> plans;
  int64_t saved = 0, kept = 0;
  for (Number reader : readers) {
    Plan plan{reader, {}, {}, bytes, 0};
    if (!collectCopies(call, reader, plan.calls, plan.leaves))
      continue;
    SmallVector<CallOp> together(clusters[reader].calls);
    llvm::append_range(together, plan.calls);
    if (!canShareRows(together))
      continue;
    unsigned at = getPosition(clusters[reader].calls.back());
    for (Value leaf : plan.leaves) {
      plan.saved -= getBytes(leaf);
      plan.kept += getLastUse(leaf) < at ? getBytes(leaf) : 0;
    }
    saved += plan.saved;
    kept = std::max(kept, plan.kept);
    plans.push_back(std::move(plan));
  }
  bool all = plans.size() == readers.size();
  bool isFreed = all && (!isReadByOthers || lastOther < firstReader);
  bool takesAll = all && saved + (isReadByOthers ? 0 : bytes) > 0 && kept <= (isFreed ? bytes : 0);
  for (const Plan &plan : plans)
    if (takesAll || (plan.saved > 0 && plan.kept == 0)) {
      FusionCluster &cluster = clusters[plan.reader];
      for (CallOp copy : plan.calls) {
        cluster.add(copy);
        holders[copy].push_back(plan.reader);
      }
      llvm::sort(cluster.calls,
                 [&](CallOp a, CallOp b) { return getPosition(a) < getPosition(b); });
    }
}

void FusionClusters::copyCheapCalls() {
  for (Operation *op : operations)
    if (auto call = dyn_cast<CallOp>(op); call && canCopy(call))
      considerCopies(call);
}
