//===- PlannedUses.cpp - Last uses of a planned step's buffers ------------===//

#include "fsdp/Analysis/PlannedUses.h"

#include "fsdp/Analysis/GradientDivision.h"
#include "fsdp/IR/TensorLayout.h"

using namespace mlir;
using namespace fsdp;

PlannedUses::PlannedUses(func::FuncOp step, const GroupTable &groups, const StepStorage &storage)
    : storage(storage), lastUse(storage.getStorages().size(), -1) {
  mlir::Block &body = step.getBody().front();
  findLastUses(body);
  keepUntilWaits(body);
  keepPlacedGradients(body);
}

void PlannedUses::findLastUses(mlir::Block &body) {
  end = std::distance(body.begin(), body.end()) - 1;
  for (auto [position, op] : llvm::enumerate(body)) {
    if (Value handle = getAwaitedHandle(op))
      waitOf[handle] = position;
    storage.forEachTouched(op, [&](int64_t index) { lastUse[index] = position; });
  }
  // A gathered copy that is never resharded stays live.
  for (auto [index, item] : llvm::enumerate(storage.getStorages()))
    if (auto wait = dyn_cast<AllGatherWaitOp>(item.owner); wait && !wait.getStart().getReshard()) {
      lastUse[index] = end;
      if (item.whole != StepStorage::kNone)
        lastUse[item.whole] = end;
    }
}

/// The operands of a start are in use until its wait.
void PlannedUses::keepUntilWaits(mlir::Block &body) {
  for (Operation &op : body) {
    Value handle = getStartedHandle(op);
    auto wait = waitOf.find(handle);
    if (!handle || wait == waitOf.end())
      continue;
    for (Value operand : op.getOperands())
      if (int64_t index = storage.lookup(operand);
          index != StepStorage::kNone &&
          !llvm::is_contained(cast<StepOpInterface>(op).getPacked(), operand))
        lastUse[index] = std::max(lastUse[index], wait->second);
  }
}

std::optional<GradientSink> PlannedUses::getSink(Operation *op) const {
  int64_t index = storage.lookup(op->getResult(0));
  if (index == StepStorage::kNone)
    return std::nullopt;
  const GroupInfo *group = storage.getStorages()[index].group;
  Value handle = getStartedHandle(*op);
  auto wait = waitOf.find(handle);
  // A start packs into its input and has an output as well; otherwise the packed buffer is the
  // result.
  std::optional<int64_t> place = getPlace(op, 0, handle ? 2 : 1);
  if (!place || (handle && wait == waitOf.end()))
    return std::nullopt;
  return GradientSink{group, *place, handle ? wait->second : lastUse[index]};
}

bool PlannedUses::isPlaced(const GradientSink &sink, unsigned param, Value gradient) const {
  int64_t index = storage.lookup(gradient);
  bool isCut = !sink.group->isFlat() && sink.group->layout.ranks > 1;
  if (index == StepStorage::kNone || isCut)
    return false;
  const Storage &item = storage.getStorages()[index];
  std::optional<int64_t> place;
  if (item.category == BufferCategory::Activation)
    place = getPlace(item.owner, item.index, item.owner->getNumResults());
  auto type = cast<RankedTensorType>(gradient.getType());
  return place && isContiguous(type) &&
         *place + getTensorLayout(type).offset * sink.group->gradients.elementBytes ==
             sink.base + sink.group->getParamBegin(param, sink.group->gradients);
}

void PlannedUses::keepPlacedGradients(mlir::Block &body) {
  for (auto [position, op] : llvm::enumerate(body)) {
    auto uses = dyn_cast<StepOpInterface>(op);
    if (!uses || uses.getPacked().empty())
      continue;
    std::optional<GradientSink> sink = getSink(&op);
    if (!sink)
      continue;
    for (auto [param, gradient] : llvm::enumerate(uses.getPacked()))
      if (isPlaced(*sink, param, gradient)) {
        int64_t &last = lastUse[storage.lookup(gradient)];
        if (last > static_cast<int64_t>(position) && overwritesPacked(&op))
          overwritten.try_emplace(&op, param);
        last = std::max(last, sink->end);
      }
  }
}
