//===- VerifyScheduled.cpp - Order and streams ----------------------------===//

#include "fsdp/Analysis/Clipping.h"
#include "fsdp/Analysis/ShardingChecks.h"
#include "fsdp/Analysis/StateCopies.h"
#include "passes/Passes.h"

namespace fsdp {
#define GEN_PASS_DEF_VERIFYSCHEDULED
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

/// D1: with regions, ranks could issue different collectives.
static LogicalResult checkFlat(Step &step) {
  for (Operation &op : step.getBody())
    if (op.getNumRegions() != 0)
      return op.emitError("a scheduled step is one block: '")
             << op.getName() << "' has a region, whose operations ranks could run differently";
  return success();
}

/// D2: one order per communicator.
static LogicalResult checkStreams(Step &step) {
  auto check = [](auto start, Stream expected) -> LogicalResult {
    if (start.getStream() == expected)
      return success();
    return start.emitError("'") << start->getName() << "' of group @" << start.getGroup()
                                << " is on stream " << stringifyStream(start.getStream())
                                << ", expected " << stringifyStream(expected)
                                << "; run fsdp-assign-streams";
  };
  ReduceScatterStartOp first;
  for (Operation &op : step.getBody()) {
    if (auto gather = dyn_cast<AllGatherStartOp>(op)) {
      if (failed(check(gather, Stream::Gather)))
        return failure();
    } else if (auto reduction = dyn_cast<ReduceScatterStartOp>(op)) {
      // All of them may share the gathers' stream.
      if (!first)
        first = reduction;
      bool isShared = first.getStream() == Stream::Gather;
      if (failed(check(reduction, isShared ? Stream::Gather : Stream::Reduce)))
        return failure();
    } else if (auto across = dyn_cast<AllReduceStartOp>(op)) {
      if (failed(check(across, Stream::Replicate)))
        return failure();
    } else if (auto sum = dyn_cast<SquareSumAllReduceStartOp>(op);
               sum && sum.getStream() != Stream::Reduce) {
      return sum.emitError("'") << sum->getName() << "' is on stream "
                                << stringifyStream(sum.getStream()) << ", expected "
                                << stringifyStream(Stream::Reduce) << "; run fsdp-assign-streams";
    }
  }
  return success();
}

/// D4: what is issued in one launch stands together.
static LogicalResult checkBuckets(Step &step) {
  auto check = [](auto start) -> LogicalResult {
    if (!start.getCoalesced())
      return success();
    auto previous = dyn_cast_or_null<decltype(start)>(start->getPrevNode());
    if (previous && previous.getStream() == start.getStream())
      return success();
    InFlightDiagnostic diag = start.emitError("'")
                              << start->getName() << "' of group @" << start.getGroup()
                              << " is coalesced, but no '" << start->getName() << "' on stream "
                              << stringifyStream(start.getStream()) << " is directly before it";
    if (Operation *other = start->getPrevNode())
      diag.attachNote(other->getLoc()) << "'" << other->getName() << "' is before it";
    return diag;
  };
  for (Operation &op : step.getBody()) {
    LogicalResult result = success();
    if (auto gather = dyn_cast<AllGatherStartOp>(op))
      result = check(gather);
    else if (auto reduction = dyn_cast<ReduceScatterStartOp>(op))
      result = check(reduction);
    else if (auto across = dyn_cast<AllReduceStartOp>(op))
      result = check(across);
    if (failed(result))
      return failure();
  }
  return success();
}

namespace {
struct VerifyScheduledPass : public fsdp::impl::VerifyScheduledBase<VerifyScheduledPass> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, getArgument(), ModulePhase::Scheduled)))
      return signalPassFailure();
    FailureOr<Step> step = Step::collect(module);
    // D3 is what checkCollectives proves: in this IR values of another stream come out of waits.
    if (failed(step) || failed(checkGroups(*step)) || failed(checkFlat(*step)) ||
        failed(checkCollectives(*step)) || failed(checkClipping(*step)) ||
        failed(checkStateCopies(*step)) || failed(checkStreams(*step)) ||
        failed(checkBuckets(*step)))
      return signalPassFailure();
  }
};
} // namespace
