//===- VerifySharded.cpp - Verifies gathers and reductions ----------------===//

#include "fsdp/Analysis/ShardingChecks.h"
#include "passes/Passes.h"

namespace fsdp {
#define GEN_PASS_DEF_VERIFYSHARDED
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {
struct VerifyShardedPass : public fsdp::impl::VerifyShardedBase<VerifyShardedPass> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, getArgument(), ModulePhase::Sharded)))
      return signalPassFailure();
    FailureOr<Step> step = Step::collect(module);
    if (failed(step) || failed(checkSharded(*step)))
      return signalPassFailure();
  }
};
} // namespace
