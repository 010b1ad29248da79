//===- ScheduleChecks.cpp - Checks of order and streams -------------------===//

#include "fsdp/Analysis/ScheduleChecks.h"

#include "fsdp/Analysis/CommunicatorTable.h"
#include "fsdp/Analysis/ShardingChecks.h"

using namespace mlir;
using namespace fsdp;

/// `'fsdp.all_gather.start' of group @g`, for messages.
static std::string describe(CollectiveOpInterface start) {
  std::string text = "'" + start->getName().getStringRef().str() + "'";
  if (FlatSymbolRefAttr group = start.getCollectiveGroup())
    text += " of group @" + group.getValue().str();
  return text;
}

/// D1: with regions, ranks could issue different collectives. The semantics of operations of other
/// dialects are unknown.
static LogicalResult checkFlat(Step &step) {
  for (Operation &op : step.getBody()) {
    if (op.getNumRegions() != 0)
      return op.emitError("D1: a scheduled step is one block: '")
             << op.getName() << "' has a region, whose operations ranks could run differently";
    if (!isa<func::ReturnOp>(op) &&
        !isa_and_nonnull<aten::AtenDialect, FsdpDialect>(op.getDialect()))
      return op.emitError("D1: '")
             << op.getName() << "' is no operation of the dialects 'aten' and 'fsdp'";
  }
  return success();
}

/// The stream of a collective's communicator. Reduce-scatters may share the gathers' stream.
static Stream getExpectedStream(CollectiveOpInterface start, bool sharesGathers) {
  StringRef kind = start.getCollectiveKind();
  if (kind == "all_gather")
    return Stream::Gather;
  if (kind == "reduce_scatter")
    return sharesGathers ? Stream::Gather : Stream::Reduce;
  return start.getCollectiveGroup() ? Stream::Replicate : Stream::Reduce;
}

/// D2: one order per communicator.
static LogicalResult checkStreams(Step &step) {
  std::optional<bool> sharesGathers;
  for (auto start : step.getBody().getOps<CollectiveOpInterface>()) {
    if (start.getCollectiveKind() == "reduce_scatter" && !sharesGathers)
      sharesGathers = start.getStream() == Stream::Gather;
    Stream expected = getExpectedStream(start, sharesGathers.value_or(false));
    if (start.getStream() != expected)
      return start.emitError("D2: ")
             << describe(start) << " is on stream " << stringifyStream(start.getStream())
             << ", expected " << stringifyStream(expected) << "; run fsdp-assign-streams";
    if (start.getTransport() == Transport::Auto)
      return start.emitError("D2: ")
             << describe(start)
             << " has transport auto, expected the transport that the schedule decided";
  }
  return success();
}

/// The verifiers have checked the axes.
static Meeting getMeeting(Step &step, CollectiveOpInterface start) {
  FailureOr<Meeting> meeting = fsdp::getMeeting(start, step.getMesh(start));
  return succeeded(meeting) ? *meeting : Meeting();
}

/// D3: the collectives of one launch are adjacent, and the same ranks meet in all of them.
static LogicalResult checkBuckets(Step &step) {
  for (auto start : step.getBody().getOps<CollectiveOpInterface>()) {
    if (!start.getCoalesced())
      continue;
    auto previous = dyn_cast_or_null<CollectiveOpInterface>(start->getPrevNode());
    bool isOfKind = previous && previous->getName() == start->getName() &&
                    previous.getStream() == start.getStream();
    if (isOfKind && previous.getTransport() != start.getTransport()) {
      InFlightDiagnostic diag = start.emitError("D3: ")
                                << describe(start) << " goes by "
                                << stringifyTransport(start.getTransport())
                                << ", but is coalesced with one that goes by "
                                << stringifyTransport(previous.getTransport());
      diag.attachNote(previous->getLoc()) << describe(previous) << " starts here";
      return diag;
    }
    if (isOfKind && getMeeting(step, previous) == getMeeting(step, start))
      continue;
    if (isOfKind) {
      InFlightDiagnostic diag = start.emitError("D3: ")
                                << describe(start) << " meets " << getMeeting(step, start).ranks
                                << " ranks, but is coalesced with one that meets "
                                << getMeeting(step, previous).ranks;
      diag.attachNote(previous->getLoc()) << describe(previous) << " starts here";
      return diag;
    }
    InFlightDiagnostic diag = start.emitError("D3: ")
                              << describe(start) << " is coalesced, but no '" << start->getName()
                              << "' on stream " << stringifyStream(start.getStream())
                              << " is directly before it";
    if (Operation *other = start->getPrevNode())
      diag.attachNote(other->getLoc()) << "'" << other->getName() << "' is before it";
    return diag;
  }
  return success();
}

LogicalResult fsdp::checkScheduled(Step &step) {
  // S2 and S3 guarantee that no stream reads a buffer that another one still writes: values of
  // another stream are results of waits.
  if (failed(checkFlat(step)) || failed(checkSharded(step)) || failed(checkStreams(step)))
    return failure();
  return checkBuckets(step);
}
