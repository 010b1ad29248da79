//===- PrepareSearch.cpp - Prepares a sharded step for a search -----------===//

#include "fsdp/Transforms/PrepareSearch.h"

#include "fsdp/Transforms/PlaceGradients.h"

using namespace mlir;
using namespace fsdp;

static void dropUnreadGathers(Block &body) {
  for (AllGatherWaitOp wait : llvm::make_early_inc_range(body.getOps<AllGatherWaitOp>())) {
    if (!wait->use_empty())
      continue;
    AllGatherStartOp start = wait.getStart();
    if (ReshardOp reshard = start.getReshard())
      reshard.erase();
    wait.erase();
    start.erase();
  }
}

FailureOr<StepMemory> fsdp::prepareSearch(ModuleOp module) {
  FailureOr<func::FuncOp> step = getStep(module, ModulePhase::Sharded);
  if (failed(step))
    return failure();
  dropUnreadGathers(step->getBody().front());
  FailureOr<StepMemory> memory = StepMemory::build(module, ModulePhase::Sharded);
  // Copies of gradients are new operations: the analysis is repeated.
  if (succeeded(memory) && placeGradients(*memory) > 0)
    return StepMemory::build(module, ModulePhase::Sharded);
  return memory;
}
