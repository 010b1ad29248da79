//===- PlaceGradients.cpp - Copies of gradients that cannot stay in place -===//

#include "fsdp/Transforms/PlaceGradients.h"

#include "fsdp/IR/AtenBuilders.h"

using namespace mlir;
using namespace fsdp;

/// Copies a gradient, in the scope of the call that computes it.
static Value copyBefore(Value gradient, Operation *before) {
  OpBuilder builder(before);
  auto source = gradient.getDefiningOp<aten::CallOp>();
  return aten::cloneContiguously(builder, gradient, aten::Phase::Backward,
                                 source ? source.getScopeAttr()
                                        : aten::ScopeAttr::get(before->getContext(), ""));
}

unsigned fsdp::placeGradients(const StepMemory &memory) {
  std::vector<int64_t> lastUse(memory.storage.getStorages().size(), 0);
  SmallVector<std::pair<ReduceScatterStartOp, int64_t>> starts;
  int64_t position = 0;
  for (Operation &op : memory.getBody()) {
    for (Value operand : op.getOperands())
      if (int64_t index = memory.storage.lookup(operand); index != StepStorage::kNone)
        lastUse[index] = position;
    if (auto start = dyn_cast<ReduceScatterStartOp>(op))
      starts.push_back({start, position});
    ++position;
  }
  unsigned numCopies = 0;
  for (auto [start, startPosition] : starts) {
    if (!memory.groups.lookup(start.getGroupAttr()).isFlat())
      continue; // the reduction's start copies all of its gradients
    for (auto [range, operand] :
         llvm::zip_equal(memory.ranges.lookup(start).drop_back(), start.getGradsMutable())) {
      int64_t index = memory.ranges.getRanges()[range].storage;
      bool isEmpty = cast<RankedTensorType>(operand.get().getType()).getNumElements() == 0;
      if (isEmpty || (index != StepStorage::kNone && lastUse[index] <= startPosition))
        continue;
      operand.set(copyBefore(operand.get(), start));
      ++numCopies;
    }
  }
  return numCopies;
}
