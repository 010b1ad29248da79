//===- WatchedCommunicator.cpp - Tracks the progress of collectives -------===//

#include "watch/WatchedCommunicator.h"
#include "DType.h"
#include "comm/CollectiveNames.h"
#include "plan/CollectiveOrder.h"

using namespace fsdp::rt;

bool WatchedCommunicator::useStream(unsigned lane, Stream &stream) {
  bool used = inner.useStream(lane, stream);
  states[lane].stream = used ? &stream : nullptr;
  return used;
}

void WatchedCommunicator::mark(unsigned lane, ProgressWord &word, uint32_t value) {
  if (!states[lane].stream)
    word.store(value, std::memory_order_release);
  else if (!marksLost)
    if (Status status = states[lane].stream->mark(word, value); !status.ok()) {
      marksLost = true;
      progress.loseMarks(status.message());
    }
}

template <typename Issue>
Status WatchedCommunicator::run(unsigned lane, fsdp_entry_kind kind, size_t bytes, Issue &&issue) {
  if (lane == kControlLane)
    return issue();
  if (lane >= progress.numLanes() || progress.entriesOf(lane).empty())
    return Status::error("a collective on the " + laneName(lane) + ", where the plan has none");
  uint32_t number = progress.issue(lane);
  const fsdp_entry &entry = plan.entries()[progress.entriesOf(lane)[number - 1]];
  const uint8_t entryKind = groupKindOf(entry);
  size_t expected = entryKind == FSDP_ALL_GATHER_START
                        ? static_cast<size_t>(entry.bytes)
                        : static_cast<size_t>(entry.count) * elementBytes(entry.dtype);
  if (entryKind != kind || bytes != expected)
    return Status::error("a collective of " + std::to_string(bytes) + " bytes per rank on the " +
                         laneName(lane) + ", where the plan has " +
                         progress.describe(lane, number) + " of " + std::to_string(expected));
  // A group starts with its first collective and completes with its last.
  bool first = !states[lane].grouped || states[lane].lastOfGroup == 0;
  // Reset first, so that a started collective never counts as completed by an earlier step.
  if (number == 1)
    mark(lane, progress.completed(lane), 0);
  if (first)
    mark(lane, progress.started(lane), number);
  states[lane].lastOfGroup = number;
  Status status = issue();
  if (status.ok() && !states[lane].grouped)
    mark(lane, progress.completed(lane), number);
  return status;
}

Status WatchedCommunicator::beginGroup(unsigned lane) {
  states[lane].grouped = true;
  states[lane].lastOfGroup = 0;
  return inner.beginGroup(lane);
}

Status WatchedCommunicator::endGroup(unsigned lane) {
  states[lane].grouped = false;
  Status status = inner.endGroup(lane);
  if (status.ok() && states[lane].lastOfGroup != 0) {
    mark(lane, progress.started(lane), states[lane].lastOfGroup);
    mark(lane, progress.completed(lane), states[lane].lastOfGroup);
  }
  return status;
}

Status WatchedCommunicator::beginCapture() {
  for (unsigned lane = kControlLane + 1; lane < progress.numLanes(); ++lane)
    states[lane].issuedBefore = progress.numbers(lane).issued;
  return inner.beginCapture();
}

void WatchedCommunicator::endCapture(bool kept) {
  inner.endCapture(kept);
  if (!kept)
    for (unsigned lane = kControlLane + 1; lane < progress.numLanes(); ++lane)
      progress.resumeAfter(lane, states[lane].issuedBefore);
}

Status WatchedCommunicator::allGather(unsigned lane, const void *input, void *output,
                                      size_t bytes) {
  return run(lane, FSDP_ALL_GATHER_START, bytes,
             [&] { return inner.allGather(lane, input, output, bytes); });
}

Status WatchedCommunicator::reduceScatter(unsigned lane, const void *input, void *output,
                                          size_t count, fsdp_dtype dtype, ReduceOp op) {
  return run(lane, FSDP_REDUCE_SCATTER_START, count * elementBytes(dtype),
             [&] { return inner.reduceScatter(lane, input, output, count, dtype, op); });
}

Status WatchedCommunicator::reduceScatterScaled(unsigned lane, void *input, void *output,
                                                size_t count, fsdp_dtype dtype, double factor) {
  return run(lane, FSDP_REDUCE_SCATTER_START, count * elementBytes(dtype),
             [&] { return inner.reduceScatterScaled(lane, input, output, count, dtype, factor); });
}

Status WatchedCommunicator::allReduce(unsigned lane, void *data, size_t count, fsdp_dtype dtype,
                                      ReduceOp op) {
  return run(lane, FSDP_ALL_REDUCE_START, count * elementBytes(dtype),
             [&] { return inner.allReduce(lane, data, count, dtype, op); });
}

Status WatchedCommunicator::broadcast(unsigned lane, void *data, size_t bytes, unsigned root) {
  return inner.broadcast(lane, data, bytes, root);
}
