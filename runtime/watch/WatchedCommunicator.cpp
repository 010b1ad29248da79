//===- WatchedCommunicator.cpp - Notes what a step's collectives do -------===//

#include "watch/WatchedCommunicator.h"
#include "DType.h"
#include "comm/CollectiveNames.h"

using namespace fsdp::rt;

bool WatchedCommunicator::useStream(unsigned lane, Stream &stream) {
  bool used = inner.useStream(lane, stream);
  streams[lane] = used ? &stream : nullptr;
  return used;
}

void WatchedCommunicator::mark(unsigned lane, ProgressWord &word, uint32_t value) {
  if (streams[lane])
    streams[lane]->mark(word, value);
  else
    word.store(value, std::memory_order_release);
}

template <typename Issue>
Status WatchedCommunicator::run(unsigned lane, fsdp_entry_kind kind, size_t bytes, Issue &&issue) {
  if (lane == kControlLane)
    return issue();
  if (progress.entriesOf(lane).empty())
    return Status::error(std::string("a collective on the ") + laneName(lane) +
                         ", where the plan has none");
  uint32_t number = progress.issue(lane);
  const fsdp_entry &entry = plan.entries()[progress.entriesOf(lane)[number - 1]];
  size_t expected = entry.kind == FSDP_ALL_GATHER_START
                        ? static_cast<size_t>(entry.bytes)
                        : static_cast<size_t>(entry.count) * elementBytes(entry.dtype);
  if (entry.kind != kind || bytes != expected)
    return Status::error("a collective of " + std::to_string(bytes) + " bytes per rank on the " +
                         laneName(lane) + ", where the plan has " +
                         progress.describe(lane, number) + " of " + std::to_string(expected));
  // A group starts with its first collective and completes with its last.
  bool first = !grouped[lane] || lastOfGroup[lane] == 0;
  // Never a started one that has completed in an earlier step.
  if (number == 1)
    mark(lane, progress.completed(lane), 0);
  if (first)
    mark(lane, progress.started(lane), number);
  lastOfGroup[lane] = number;
  Status status = issue();
  if (status.ok() && !grouped[lane])
    mark(lane, progress.completed(lane), number);
  return status;
}

Status WatchedCommunicator::beginGroup(unsigned lane) {
  grouped[lane] = true;
  lastOfGroup[lane] = 0;
  return inner.beginGroup(lane);
}

Status WatchedCommunicator::endGroup(unsigned lane) {
  grouped[lane] = false;
  Status status = inner.endGroup(lane);
  if (status.ok() && lastOfGroup[lane] != 0) {
    mark(lane, progress.started(lane), lastOfGroup[lane]);
    mark(lane, progress.completed(lane), lastOfGroup[lane]);
  }
  return status;
}

Status WatchedCommunicator::beginCapture() {
  for (unsigned lane = 0; lane < kNumLanes; ++lane)
    issuedBefore[lane] = progress.numbers(lane).issued;
  return inner.beginCapture();
}

void WatchedCommunicator::endCapture(bool kept) {
  inner.endCapture(kept);
  if (!kept)
    for (unsigned lane = 0; lane < kNumLanes; ++lane)
      progress.resumeAfter(lane, issuedBefore[lane]);
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
  // Over the shard axis only the gradients' norm is.
  fsdp_entry_kind kind = lane == kReduceLane ? FSDP_NORM_ALL_REDUCE_START : FSDP_ALL_REDUCE_START;
  return run(lane, kind, count * elementBytes(dtype),
             [&] { return inner.allReduce(lane, data, count, dtype, op); });
}

Status WatchedCommunicator::broadcast(unsigned lane, void *data, size_t bytes, unsigned root) {
  return inner.broadcast(lane, data, bytes, root);
}
