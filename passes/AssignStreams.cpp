//===- AssignStreams.cpp - Streams for gathers and reductions -------------===//

#include "fsdp/Analysis/Step.h"
#include "passes/Passes.h"

namespace fsdp {
#define GEN_PASS_DEF_ASSIGNSTREAMS
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {
struct AssignStreamsPass : public fsdp::impl::AssignStreamsBase<AssignStreamsPass> {
  void runOnOperation() override {
    if (failed(expectPhase(getOperation(), getArgument(), ModulePhase::Scheduled)))
      return signalPassFailure();
    const Stream reductions =
        getTarget(getOperation()) == Target::Cuda ? Stream::Gather : Stream::Reduce;
    for (auto step : getOperation().getOps<func::FuncOp>())
      step.walk([&](Operation *op) {
        if (auto gather = dyn_cast<AllGatherStartOp>(op))
          gather.setStream(Stream::Gather);
        else if (auto reduction = dyn_cast<ReduceScatterStartOp>(op))
          reduction.setStream(reductions);
        else if (auto across = dyn_cast<AllReduceStartOp>(op))
          across.setStream(isa<ShardType>(across.getPayload()) ? Stream::Replicate
                                                               : Stream::Reduce);
      });
  }
};
} // namespace
