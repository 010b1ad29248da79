//===- PlaceGradients.cpp - Copies of gradients that cannot stay in place -===//

#include "fsdp/Transforms/PlaceGradients.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fsdp;

static aten::CallOp copyContiguously(Value gradient, Operation *before) {
  OpBuilder builder(before);
  MLIRContext *context = builder.getContext();
  Type type = cast<RankedTensorType>(gradient.getType()).cloneWithEncoding({});
  auto source = gradient.getDefiningOp<aten::CallOp>();
  Attribute args[] = {aten::OperandAttr::get(context),
                      aten::MemoryFormatAttr::get(context, aten::MemoryFormat::Contiguous)};
  return aten::CallOp::create(
      builder, before->getLoc(), TypeRange(type), ValueRange(gradient),
      builder.getStringAttr("clone.default"), builder.getArrayAttr(args), aten::Phase::Backward,
      source ? source.getModuleAttr() : builder.getStringAttr(""), /*rng=*/nullptr,
      /*offsets=*/nullptr);
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
  for (auto [start, startPosition] : starts)
    for (auto [range, operand] :
         llvm::zip_equal(memory.ranges.lookup(start).drop_back(), start.getGradsMutable())) {
      int64_t index = memory.ranges.getRanges()[range].storage;
      bool isEmpty = cast<RankedTensorType>(operand.get().getType()).getNumElements() == 0;
      if (isEmpty || (index != StepStorage::kNone && lastUse[index] <= startPosition))
        continue;
      operand.set(copyContiguously(operand.get(), start).getResult(0));
      ++numCopies;
    }
  return numCopies;
}
