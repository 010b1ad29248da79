//===- Recompute.cpp - Compute cheap results again in the backward --------===//
//
// Three linear walks: where each storage is used in the backward; which results are worth computing
// again, operands before results; then the copies, at places decided on position numbers.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step.h"
#include "fsdp/IR/TensorLayout.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "passes/Passes.h"
#include "llvm/ADT/StringMap.h"

namespace fsdp {
#define GEN_PASS_DEF_RECOMPUTE
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;
using aten::CallOp;
using aten::Phase;

namespace {

/// A tensor and all its views in the forward, by the value that owns the bytes.
struct Storage {
  CallOp producer;              // null: a parameter, buffer, input or constant, always there
  SmallVector<CallOp, 2> views; // of the forward, in order
  int64_t firstUse = -1;        // positions of calls of the backward, -1: none
  int64_t lastUse = -1;
  bool isKept = false;       // something other than a call of the backward needs it
  bool isRecomputed = false; // decided
  int64_t place = -1;        // position before which it is recomputed
};

struct RecomputePass : public fsdp::impl::RecomputeBase<RecomputePass> {
  using RecomputeBase::RecomputeBase;
  void runOnOperation() override;

private:
  LogicalResult collectUses(Block &body);
  void decide();
  bool isWorthIt(const Storage &storage) const;
  bool isThere(Value operand, int64_t position) const;
  void rewrite(Block &body);

  /// Index of the group whose modules hold the module, innermost first; the root's for others.
  unsigned groupOf(StringAttr module);

  Step step;
  SmallVector<CallOp> calls;                    // by position
  std::vector<Storage> storages;                // in program order of their producers
  DenseMap<Value, unsigned> storageOf;          // forward values only
  llvm::StringMap<unsigned> groupOfPath;        // of the modules that groups name
  DenseMap<StringAttr, unsigned> groupOfModule; // found so far
};

} // namespace

unsigned RecomputePass::groupOf(StringAttr module) {
  auto [it, isNew] = groupOfModule.try_emplace(module, step.groups.size());
  if (!isNew)
    return it->second;
  for (StringRef path = module.getValue();; path = path.rsplit('.').first) {
    if (auto found = groupOfPath.find(path); found != groupOfPath.end())
      return it->second = found->second;
    if (!path.contains('.'))
      break;
  }
  if (auto root = groupOfPath.find(""); root != groupOfPath.end())
    it->second = root->second;
  return it->second;
}

//===----------------------------------------------------------------------===//
// Collect
//===----------------------------------------------------------------------===//

LogicalResult RecomputePass::collectUses(Block &body) {
  auto addStorage = [&](Value value, CallOp producer) {
    storageOf[value] = storages.size();
    storages.emplace_back().producer = producer;
  };
  for (Operation &op : body) {
    auto call = dyn_cast<CallOp>(op);
    if (!call) {
      for (Value operand : op.getOperands())
        if (auto it = storageOf.find(operand); it != storageOf.end())
          storages[it->second].isKept = true;
      for (Value result : op.getResults())
        addStorage(result, nullptr);
      continue;
    }
    int64_t position = calls.size();
    calls.push_back(call);
    if (call.getPhase() == Phase::Backward) {
      for (Value operand : call.getOperands())
        if (auto it = storageOf.find(operand); it != storageOf.end()) {
          Storage &storage = storages[it->second];
          if (storage.firstUse < 0)
            storage.firstUse = position;
          storage.lastUse = position;
          if (storage.producer &&
              groupOf(call.getModuleAttr()) != groupOf(storage.producer.getModuleAttr()))
            storage.isKept = true;
        }
      continue;
    }
    for (Value operand : call.getOperands())
      if (!storageOf.contains(operand))
        return call.emitError("is in the forward but uses a value of the backward");
    if (call.isView() && !call.getOperands().empty()) {
      unsigned storage = storageOf.lookup(call.getOperands().front());
      storages[storage].views.push_back(call);
      for (Value result : call.getResults())
        storageOf[result] = storage;
      continue;
    }
    for (Value result : call.getResults())
      addStorage(result, call);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Decide
//===----------------------------------------------------------------------===//

static int64_t getBytes(const Storage &storage) {
  CallOp producer = storage.producer;
  return getStorageBytes(cast<RankedTensorType>(producer.getResult(0).getType()));
}

/// True if `operand` exists before call `position` of the backward without being kept for it.
bool RecomputePass::isThere(Value operand, int64_t position) const {
  const Storage &storage = storages[storageOf.lookup(operand)];
  return !storage.producer || storage.lastUse >= position;
}

bool RecomputePass::isWorthIt(const Storage &storage) const {
  CallOp producer = storage.producer;
  if (!producer || storage.isKept || storage.firstUse < 0 || !producer.isCheap() ||
      producer.getNumResults() != 1 || getBytes(storage) < minBytes)
    return false;
  return llvm::all_of(producer.getOperands(),
                      [&](Value operand) { return isThere(operand, storage.firstUse); });
}

void RecomputePass::decide() {
  for (Storage &storage : storages)
    if (isWorthIt(storage)) {
      storage.isRecomputed = true;
      storage.place = storage.firstUse;
    }
  // An operand that is recomputed must be there before whoever needs it first.
  for (Storage &storage : llvm::reverse(storages))
    if (storage.isRecomputed)
      for (Value operand : storage.producer.getOperands()) {
        Storage &source = storages[storageOf.lookup(operand)];
        if (source.isRecomputed)
          source.place = std::min(source.place, storage.place);
      }
}

//===----------------------------------------------------------------------===//
// Transform
//===----------------------------------------------------------------------===//

void RecomputePass::rewrite(Block &body) {
  IRMapping copies;
  OpBuilder builder(&getContext());
  auto copy = [&](CallOp call) {
    cast<CallOp>(builder.clone(*call, copies)).setPhase(Phase::Backward);
  };
  auto isUserInBackward = [&](Operation *user) {
    auto call = dyn_cast<CallOp>(user);
    if (!call || call.getPhase() == Phase::Backward)
      return true;
    if (call.getNumResults() == 0)
      return false;
    const Storage &result = storages[storageOf.lookup(call.getResult(0))];
    return call.isView() || (result.isRecomputed && result.producer == call);
  };
  // In program order, so that at one place operands come before results.
  for (Storage &storage : storages) {
    if (!storage.isRecomputed)
      continue;
    builder.setInsertionPoint(calls[storage.place]);
    copy(storage.producer);
    for (CallOp view : storage.views)
      if (llvm::any_of(view->getUsers(), isUserInBackward))
        copy(view);
  }
  for (CallOp call : calls)
    if (call.getPhase() == Phase::Backward)
      for (OpOperand &operand : call->getOpOperands())
        operand.set(copies.lookupOrDefault(operand.get()));
}

void RecomputePass::runOnOperation() {
  if (failed(expectPhase(getOperation(), getArgument(), ModulePhase::Captured)))
    return signalPassFailure();
  FailureOr<Step> collected = Step::collect(getOperation());
  if (failed(collected))
    return signalPassFailure();
  step = *collected;
  calls.clear();
  storages.clear();
  storageOf.clear();
  groupOfModule.clear();
  groupOfPath.clear();
  for (auto [index, group] : llvm::enumerate(step.groups))
    for (auto path : group.getModules().getAsRange<StringAttr>())
      groupOfPath[path.getValue()] = index;

  if (failed(collectUses(step.getBody())))
    return signalPassFailure();
  decide();
  rewrite(step.getBody());

  unsigned count = 0;
  int64_t bytes = 0;
  for (Storage &storage : storages)
    if (storage.isRecomputed) {
      ++count;
      bytes += getBytes(storage);
    }
  remark::analysis(getOperation().getLoc(),
                   remark::RemarkOpts::name("recompute").category(getArgument()))
      << remark::metric("Recomputed", count) << remark::metric("BytesNotKept", bytes);
}
