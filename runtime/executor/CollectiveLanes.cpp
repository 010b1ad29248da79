//===- CollectiveLanes.cpp - A step's collectives on their streams ---------===//

#include "executor/CollectiveLanes.h"
#include "plan/CollectiveOrder.h"
#include "watch/StepProgress.h"

using namespace fsdp::rt;

void CollectiveLanes::prepare() {
  issued = device.makeEvent();
  for (uint32_t i = 0; i < view.tables().num_handles; ++i)
    events.push_back(device.makeEvent());
  choices.resize(events.size());
  for (uint32_t index : collectiveEntries(view)) {
    const fsdp_entry &entry = view.entries()[index];
    Lane &lane = lanes[laneOf(entry)];
    if (lane.stream)
      continue;
    unsigned number = laneOf(entry) == kChunkLane ? kGatherLane : laneOf(entry);
    if (!streams[number])
      streams[number] =
          device.makeStream((std::string("fsdp-") + streamName(entry.stream)).c_str());
    lane.stream = streams[number].get();
  }
  useStreams();
}

void CollectiveLanes::useStreams() {
  for (unsigned number = 0; number < kNumLanes; ++number)
    if (Lane &lane = lanes[number]; lane.stream)
      lane.asynchronous = communicator.useStream(number, *lane.stream);
}

Status CollectiveLanes::run(void *lanes, uint32_t index) {
  auto &self = *static_cast<CollectiveLanes *>(lanes);
  const fsdp_entry &entry = self.view.entries()[index];
  unsigned lane = laneOf(entry);
  std::byte *source = self.arena + entry.source, *destination = self.arena + entry.destination;
  auto dtype = static_cast<fsdp_dtype>(entry.dtype);
  auto count = static_cast<size_t>(entry.count);
  Status status;
  switch (entry.kind) {
  case FSDP_ALL_GATHER_START:
    status =
        self.communicator.allGather(lane, source, destination, static_cast<size_t>(entry.bytes));
    break;
  case FSDP_ALL_REDUCE_START:
    status = self.communicator.allReduce(lane, destination, count, dtype, ReduceOp::Average);
    break;
  case FSDP_NORM_ALL_REDUCE_START:
    // The bits of doubles from 0 on order as integers, with NaNs last: a NaN of any rank arrives,
    // which maxima of floating point may drop.
    status = self.view.normType() == FSDP_NORM_INF
                 ? self.communicator.allReduce(lane, destination, count, FSDP_I64, ReduceOp::Max)
                 : self.communicator.allReduce(lane, destination, count, dtype, ReduceOp::Sum);
    break;
  default:
    status =
        self.communicator.reduceScatter(lane, source, destination, count, dtype, ReduceOp::Average);
  }
  if (status.ok())
    return status;
  return Status::error(self.view.describeEntry(entry) +
                       (entry.phase == FSDP_FORWARD ? " in forward: " : " in backward: ") +
                       status.message());
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
  // The compute stream has no error of its own: a failed operator ends the step.
  (void)lane.stream->wait(*issued);
  // If the reduction that it goes on with fails, so does the all-reduce's stream.
  for (const fsdp_entry &entry : started)
    if (entry.kind == FSDP_ALL_REDUCE_START && entry.after != FSDP_NO_HANDLE)
      (void)lane.stream->wait(*events[entry.after]);
  bool grouped = lane.asynchronous && count > 1;
  if (tracer)
    lane.stream->enqueue(
        {traceBegin, this, first, awaited || choices[started[0].handle].deferred()});
  if (grouped)
    lane.stream->enqueue({beginGroup, this, number});
  for (uint32_t i = 0; i < count; ++i) {
    WorkerChoice &choice = choices[started[i].handle];
    lane.stream->enqueue({run, this, first + i, awaited || choice.deferred()});
    // Before the event: whoever waits for it may end the trace.
    if (tracer && !grouped && i + 1 == count)
      lane.stream->enqueue({traceEnd, this, first, awaited || choice.deferred()});
    if (!grouped)
      lane.stream->record(*events[started[i].handle]);
    choice.noteStart();
  }
  if (!grouped)
    return;
  lane.stream->enqueue({endGroup, this, number});
  if (tracer)
    lane.stream->enqueue({traceEnd, this, first});
  for (const fsdp_entry &entry : started)
    lane.stream->record(*events[entry.handle]);
}

Status CollectiveLanes::wait(uint32_t handle) {
  choices[handle].noteWait();
  return compute.wait(*events[handle]);
}

Status CollectiveLanes::synchronize() {
  for (Lane &lane : lanes)
    if (lane.stream)
      if (Status status = lane.stream->synchronize(); !status.ok())
        return status;
  return {};
}
