//===- VerifyPhase.cpp - Verifies a module by its phase -------------------===//

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
  // The shared state of a program's steps is verified only in the phase planned, with its offsets.
  if (isProgram(module) && getPhase(module) != ModulePhase::Planned) {
    for (ModuleOp step : getSteps(module))
      if (failed(verifyPhase(step)))
        return failure();
    return checkSharedState(module);
  }
  PassManager manager(module.getContext());
  manager.enableVerifier(false); // operations were verified when the module was read
  manager.addPass(createVerifier(getPhase(module)));
  return manager.run(module);
}
