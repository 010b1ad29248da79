//===- CollectiveLanes.cpp - A step's collectives on their streams ---------===//

#include "executor/CollectiveLanes.h"
#include "plan/CollectiveOrder.h"
#include "watch/PlanLanes.h"

using namespace fsdp::rt;

void CollectiveLanes::prepare() {
  issued = device.makeEvent();
  for (uint32_t i = 0; i < view.tables().num_handles; ++i)
    events.push_back(device.makeEvent());
  choices.resize(events.size());
  fetched.resize(events.size());
  lanes.resize(communicator.numLanes());
  for (uint32_t index : collectiveEntries(view)) {
    const fsdp_entry &entry = view.entries()[index];
    if (entry.from_host)
      fetched[entry.handle] = device.makeEvent();
    Lane &lane = lanes[laneOf(entry)];
    if (isOfModel(entry))
      lane.stream = &compute;
    if (lane.stream)
      continue;
    std::unique_ptr<Stream> &stream = streams[entry.stream];
    if (!stream)
      stream = device.makeStream((std::string("fsdp-") + streamName(entry.stream)).c_str());
    lane.stream = stream.get();
  }
  useStreams();
}

void CollectiveLanes::useStreams() {
  for (unsigned number = 0; number < lanes.size(); ++number)
    if (Lane &lane = lanes[number]; lane.stream)
      lane.asynchronous = communicator.useStream(number, *lane.stream);
}

std::byte *CollectiveLanes::ownPart(const fsdp_entry &gather) const {
  return arena + gather.destination + communicator.ranksOf(laneOf(gather)).index * gather.bytes;
}

Status CollectiveLanes::collect(const fsdp_entry &entry) {
  unsigned lane = laneOf(entry);
  std::byte *source = entry.from_host ? ownPart(entry) : arena + entry.source;
  std::byte *destination = arena + entry.destination;
  auto dtype = static_cast<fsdp_dtype>(entry.dtype);
  auto count = static_cast<size_t>(entry.count);
  ReduceOp op = entry.reduce_op == FSDP_AVERAGE ? ReduceOp::Average
                : entry.reduce_op == FSDP_MAX   ? ReduceOp::Max
                                                : ReduceOp::Sum;
  communicator.setGroup(lane,
                        isOfGroup(entry) ? view.string(view.groups()[entry.target].name) : "");
  switch (entry.kind) {
  case FSDP_ALL_GATHER_START:
  case FSDP_MODEL_ALL_GATHER:
    return communicator.allGather(lane, source, destination, static_cast<size_t>(entry.bytes));
  case FSDP_ALL_REDUCE_START:
  case FSDP_MODEL_ALL_REDUCE:
    return communicator.allReduce(lane, destination, count, dtype, op);
  case FSDP_NORM_ALL_REDUCE_START:
    // The bits of non-negative doubles compare as integers, with NaNs largest. So a NaN of any rank
    // survives, whereas floating-point maxima may drop it.
    return view.normType() == FSDP_NORM_INF
               ? communicator.allReduce(lane, destination, count, FSDP_I64, ReduceOp::Max)
               : communicator.allReduce(lane, destination, count, dtype, ReduceOp::Sum);
  case FSDP_AMAX_ALL_REDUCE_START: // as above
    return communicator.allReduce(lane, destination, count, FSDP_I32, ReduceOp::Max);
  default:
    if (entry.reduce_op != FSDP_PREMUL_SUM)
      return communicator.reduceScatter(lane, source, destination, count, dtype, op);
    return communicator.reduceScatterScaled(lane, source, destination, count, dtype,
                                            entry.predivide != 0 ? 1 / entry.predivide : 1);
  }
}

Status CollectiveLanes::describe(const fsdp_entry &entry, Status status) const {
  if (status.ok())
    return status;
  return status.of(view.describeEntry(entry) +
                   (entry.phase == FSDP_FORWARD ? " in forward" : " in backward"));
}

Status CollectiveLanes::run(void *lanes, uint32_t index) {
  auto &self = *static_cast<CollectiveLanes *>(lanes);
  const fsdp_entry &entry = self.view.entries()[index];
  return self.describe(entry, self.collect(entry));
}

Status CollectiveLanes::divideBefore(void *lanes, uint32_t index) {
  auto &self = *static_cast<CollectiveLanes *>(lanes);
  const fsdp_entry &entry = self.view.entries()[index];
  unsigned lane = laneOf(entry);
  // False: an all-reduce, which is in place.
  const bool scatters = entry.kind == FSDP_REDUCE_SCATTER_START;
  size_t blocks = scatters ? self.communicator.ranksOf(lane).size : 1;
  std::byte *input = self.arena + (scatters ? entry.source : entry.destination);
  return self.describe(
      entry, self.communicator.divide(lane, input, blocks * static_cast<size_t>(entry.count),
                                      static_cast<fsdp_dtype>(entry.dtype), entry.predivide));
}

Status CollectiveLanes::divideAfter(void *lanes, uint32_t index) {
  auto &self = *static_cast<CollectiveLanes *>(lanes);
  const fsdp_entry &entry = self.view.entries()[index];
  return self.describe(
      entry, self.communicator.divide(laneOf(entry), self.arena + entry.destination,
                                      static_cast<size_t>(entry.count),
                                      static_cast<fsdp_dtype>(entry.dtype), entry.postdivide));
}

Status CollectiveLanes::beginGroup(void *lanes, uint32_t lane) {
  return static_cast<CollectiveLanes *>(lanes)->communicator.beginGroup(lane);
}

Status CollectiveLanes::endGroup(void *lanes, uint32_t lane) {
  return static_cast<CollectiveLanes *>(lanes)->communicator.endGroup(lane);
}

Status CollectiveLanes::traceBegin(void *lanes, uint32_t entry) {
  auto &self = *static_cast<CollectiveLanes *>(lanes);
  self.tracer->begins(entry, *self.lanes[laneOf(self.view.entries()[entry])].stream);
  return {};
}

Status CollectiveLanes::traceEnd(void *lanes, uint32_t entry) {
  auto &self = *static_cast<CollectiveLanes *>(lanes);
  self.tracer->ends(entry, *self.lanes[laneOf(self.view.entries()[entry])].stream);
  return {};
}

void CollectiveLanes::start(uint32_t first, uint32_t count, bool awaited) {
  std::span<const fsdp_entry> started = view.entries().subspan(first, count);
  unsigned number = laneOf(started[0]);
  Lane &lane = lanes[number];
  compute.record(*issued);
  // The compute stream itself cannot fail, since a failed operator ends the step.
  (void)lane.stream->wait(*issued);
  // If the reduce-scatter before an all-reduce fails, the all-reduce's stream fails, too.
  for (const fsdp_entry &entry : started)
    if (entry.kind == FSDP_ALL_REDUCE_START && entry.after != FSDP_NO_HANDLE)
      (void)lane.stream->wait(*events[entry.after]);
  for (const fsdp_entry &entry : started)
    if (fetched[entry.handle]) {
      hostCopies.fetchInput(entry, ownPart(entry), *fetched[entry.handle]);
      (void)lane.stream->wait(*fetched[entry.handle]);
    }
  bool grouped = lane.asynchronous && count > 1;
  bool deferred = awaited || choices[started[0].handle].deferred();
  if (tracer)
    lane.stream->enqueue({traceBegin, this, first, deferred});
  for (uint32_t i = 0; i < count; ++i)
    if (started[i].predivide != 0 && started[i].reduce_op != FSDP_PREMUL_SUM)
      lane.stream->enqueue({divideBefore, this, first + i, deferred});
  if (grouped)
    lane.stream->enqueue({beginGroup, this, number});
  auto divideResult = [&](uint32_t i, bool deferred) {
    if (started[i].postdivide != 0)
      lane.stream->enqueue({divideAfter, this, first + i, deferred});
  };
  for (uint32_t i = 0; i < count; ++i) {
    WorkerChoice &choice = choices[started[i].handle];
    lane.stream->enqueue({run, this, first + i, awaited || choice.deferred()});
    if (!grouped)
      divideResult(i, awaited || choice.deferred());
    // Before the event, since the thread that waits for the event may end the trace.
    if (tracer && !grouped && i + 1 == count)
      lane.stream->enqueue({traceEnd, this, first, awaited || choice.deferred()});
    if (!grouped)
      lane.stream->record(*events[started[i].handle]);
    choice.noteStart();
  }
  if (!grouped)
    return;
  lane.stream->enqueue({endGroup, this, number});
  for (uint32_t i = 0; i < count; ++i)
    divideResult(i, /*deferred=*/false);
  if (tracer)
    lane.stream->enqueue({traceEnd, this, first});
  for (const fsdp_entry &entry : started)
    lane.stream->record(*events[entry.handle]);
}

Status CollectiveLanes::runOfModel(uint32_t index) {
  const fsdp_entry &entry = view.entries()[index];
  if (entry.kind == FSDP_MODEL_ALL_REDUCE && entry.source != entry.destination)
    compute.copy(arena + entry.destination, arena + entry.source, static_cast<size_t>(entry.bytes));
  return describe(entry, collect(entry));
}

Status CollectiveLanes::wait(uint32_t handle) {
  choices[handle].noteWait();
  return compute.wait(*events[handle]);
}

Status CollectiveLanes::synchronize() {
  for (Lane &lane : lanes)
    if (lane.stream && lane.stream != &compute)
      if (Status status = lane.stream->synchronize(); !status.ok())
        return status;
  return {};
}
