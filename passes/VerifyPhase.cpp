//===- VerifyPhase.cpp - A module is what its phase promises --------------===//

#include "passes/VerifyPhase.h"

#include "fsdp/Analysis/Program.h"
#include "fsdp/Analysis/Step.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"

using namespace mlir;
using namespace fsdp;

static std::unique_ptr<Pass> createVerifier(ModulePhase phase) {
  switch (phase) {
  case ModulePhase::Captured:
    return createVerifyCaptured();
  case ModulePhase::Sharded:
    return createVerifySharded();
  case ModulePhase::Scheduled:
    return createVerifyScheduled();
  case ModulePhase::Planned:
    return createVerifyPlanned();
  }
  llvm_unreachable("all phases are listed");
}

LogicalResult fsdp::verifyPhase(ModuleOp module) {
  // What a planned program's steps share is proven with their places.
  if (isProgram(module) && getPhase(module) != ModulePhase::Planned) {
    for (ModuleOp step : getSteps(module))
      if (failed(verifyPhase(step)))
        return failure();
    return checkSharedState(module);
  }
  PassManager manager(module.getContext());
  manager.enableVerifier(false); // operations are verified when they are read
  manager.addPass(createVerifier(getPhase(module)));
  return manager.run(module);
}
