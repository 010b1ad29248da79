//===- StepMemory.cpp - Memory analysis of one step -----------------------===//

#include "fsdp/Analysis/StepMemory.h"

using namespace mlir;
using namespace fsdp;

FailureOr<StepMemory> StepMemory::build(ModuleOp module, ArrayRef<ModulePhase> phases) {
  FailureOr<func::FuncOp> step = getStep(module, phases);
  if (failed(step))
    return failure();
  FailureOr<GroupTable> groups = GroupTable::build(module);
  if (failed(groups))
    return failure();
  FailureOr<StepStorage> storage = StepStorage::build(*step, *groups);
  if (failed(storage))
    return failure();
  FailureOr<LiveRanges> ranges = LiveRanges::build(module, *step, *groups, *storage);
  if (failed(ranges))
    return failure();
  return StepMemory{*step, std::move(*groups), std::move(*storage), std::move(*ranges)};
}
