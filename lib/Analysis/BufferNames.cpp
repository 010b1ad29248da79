//===- BufferNames.cpp - Names of buffers in messages ---------------------===//

#include "fsdp/Analysis/LiveRanges.h"

using namespace mlir;
using namespace fsdp;

std::string fsdp::describe(const LiveRange &range, const StepStorage &storage) {
  auto groupName = [](Operation *op) {
    StringAttr declared = SymbolTable::getSymbolName(op);
    return "@" + (declared ? declared.getValue() : getGroupOf(op).getValue()).str();
  };
  switch (range.category) {
  case BufferCategory::Shard:
    return (range.index == 0 ? "the shard of " : "the copy that is gathered of ") +
           groupName(range.owner);
  case BufferCategory::OptimizerState:
    return "optimizer state " + std::to_string(range.index) + " of " + groupName(range.owner);
  case BufferCategory::Buffer:
    return "buffer " + groupName(range.owner);
  case BufferCategory::Gradient:
    return "gradient #" + std::to_string(range.index) + " of " + groupName(range.owner);
  case BufferCategory::ReducedShard:
    return "the reduced shard of " + groupName(range.owner);
  case BufferCategory::Gathered:
    if (range.storage == StepStorage::kNone)
      return "the gathered group " + groupName(range.owner);
    break;
  case BufferCategory::Input:
  case BufferCategory::Constant:
  case BufferCategory::Activation:
  case BufferCategory::Chunk:
  case BufferCategory::EncodedShard:
    break;
  }
  return describe(storage.getStorages()[range.storage]);
}
