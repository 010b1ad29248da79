//===- VerifyScheduled.cpp - Verifies order and streams -------------------===//

#include "fsdp/Analysis/ScheduleChecks.h"
#include "passes/Passes.h"

namespace fsdp {
#define GEN_PASS_DEF_VERIFYSCHEDULED
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {
struct VerifyScheduledPass : public fsdp::impl::VerifyScheduledBase<VerifyScheduledPass> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, getArgument(), ModulePhase::Scheduled)))
      return signalPassFailure();
    FailureOr<Step> step = Step::collect(module);
    if (failed(step) || failed(checkScheduled(*step)))
      return signalPassFailure();
  }
};
} // namespace
