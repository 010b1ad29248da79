//===- PlannedUses.cpp - Until when a planned step needs its buffers ------===//

#include "PlannedUses.h"

#include "fsdp/IR/TensorLayout.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

PlannedUses::PlannedUses(func::FuncOp step, const GroupTable &groups, const StepStorage &storage)
    : groups(groups), storage(storage), lastUse(storage.getStorages().size(), -1) {
  mlir::Block &body = step.getBody().front();
  findLastUses(body);
  keepPlacedGradients(body);
}

void PlannedUses::findLastUses(mlir::Block &body) {
  end = std::distance(body.begin(), body.end()) - 1;
  int64_t position = end;
  // From the end, so that the first use found is the last one.
  for (Operation &op : llvm::reverse(body)) {
    auto use = [&](Value value) {
      int64_t index = storage.lookup(value);
      if (index != StepStorage::kNone && lastUse[index] < 0)
        lastUse[index] = position;
    };
    llvm::for_each(op.getOperands(), use);
    llvm::for_each(op.getResults(), use);
    llvm::TypeSwitch<Operation *>(&op)
        .Case<AllGatherWaitOp, ReduceScatterWaitOp, AllReduceWaitOp>(
            [&](auto wait) { waitOf[wait.getHandle().getDefiningOp()] = position; })
        .Case([&](ReleaseOp release) { releaseOf[release.getHandle().getDefiningOp()] = position; })
        .Case([&](StoreStateWaitOp wait) {
          auto store = wait.getHandle().getDefiningOp<StoreStateStartOp>();
          storeWaitOf[store.getGroupAttr().getAttr()] = position;
        })
        .Case([&](UpdateOp update) { updateOf[update.getTargetAttr().getAttr()] = update; })
        .Case([&](ReduceScatterStartOp start) {
          reductionOf[start.getGroupAttr().getAttr()] = start;
        });
    if (!isa<aten::CallOp>(op))
      positionOf[&op] = position;
    --position;
  }
}

std::optional<int64_t> PlannedUses::getWait(Operation *start) const {
  auto wait = waitOf.find(start);
  return wait == waitOf.end() ? std::nullopt : std::optional(wait->second);
}

std::optional<int64_t> PlannedUses::getStoreWait(FlatSymbolRefAttr group) const {
  auto wait = storeWaitOf.find(group.getAttr());
  return wait == storeWaitOf.end() ? std::nullopt : std::optional(wait->second);
}

int64_t PlannedUses::getRelease(Operation *start) const {
  auto release = releaseOf.find(start);
  return release == releaseOf.end() ? end : release->second;
}

std::optional<GradientSink> PlannedUses::getSink(Operation *op) const {
  if (auto start = dyn_cast<ReduceScatterStartOp>(op)) {
    if (!start.getOffsets() || start.getOffsets()->size() != 2 || !waitOf.contains(op))
      return std::nullopt;
    return GradientSink{&groups.lookup(start.getGroupAttr()), (*start.getOffsets())[0],
                        waitOf.lookup(op)};
  }
  auto [group, param] = groups.lookupParam(cast<GradOp>(op).getParamAttr());
  if (!group)
    return std::nullopt;
  GroupOp groupOp = group->op;
  UpdateOp update = updateOf.lookup(groupOp.getSymNameAttr());
  if (!update || !update.getOffset())
    return std::nullopt;
  return GradientSink{group, static_cast<int64_t>(*update.getOffset()), positionOf.lookup(update)};
}

bool PlannedUses::isPlaced(const GradientSink &sink, unsigned param, Value gradient) const {
  int64_t index = storage.lookup(gradient);
  bool isCut = !sink.group->isFlat() && sink.group->layout.ranks > 1;
  if (index == StepStorage::kNone || isCut)
    return false;
  const Storage &item = storage.getStorages()[index];
  auto call = dyn_cast<aten::CallOp>(item.owner);
  auto type = cast<RankedTensorType>(gradient.getType());
  return call && call.getOffsets() && isContiguous(type) &&
         (*call.getOffsets())[item.index] +
                 getTensorLayout(type).offset * sink.group->gradients.elementBytes ==
             sink.base + sink.group->getParamBegin(param, sink.group->gradients);
}

void PlannedUses::keepPlacedGradient(const GradientSink &sink, unsigned param, Value gradient) {
  if (!isPlaced(sink, param, gradient))
    return;
  int64_t &last = lastUse[storage.lookup(gradient)];
  last = std::max(last, sink.end);
}

void PlannedUses::keepPlacedGradients(mlir::Block &body) {
  for (Operation &op : body) {
    if (auto start = dyn_cast<ReduceScatterStartOp>(op)) {
      if (std::optional<GradientSink> sink = getSink(start))
        for (auto [param, gradient] : llvm::enumerate(start.getGrads()))
          keepPlacedGradient(*sink, param, gradient);
    } else if (auto grad = dyn_cast<GradOp>(op)) {
      if (std::optional<GradientSink> sink = getSink(grad))
        keepPlacedGradient(*sink, groups.lookupParam(grad.getParamAttr()).second, grad.getValue());
    }
  }
}
