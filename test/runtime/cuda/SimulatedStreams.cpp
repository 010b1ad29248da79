//===- SimulatedStreams.cpp - When the work of streams runs ---------------===//

#include "SimulatedStreams.h"

#include <algorithm>
#include <utility>

using namespace fsdp::rt;

//===----------------------------------------------------------------------===//
// Work in order
//===----------------------------------------------------------------------===//

static unsigned countOf(const OrderedWork::Clock &clock, cudaStream_t stream) {
  auto found = clock.find(stream);
  return found == clock.end() ? 0 : found->second;
}

void OrderedWork::add(cudaStream_t stream, Work work) {
  Clock &clock = streams[stream];
  ++clock[stream];
  nodes.push_back({stream, clock, std::move(work)});
}

void OrderedWork::wait(cudaStream_t stream, cudaEvent_t event) {
  Clock &clock = streams[stream];
  for (auto [other, count] : events[event])
    clock[other] = std::max(clock[other], count);
}

bool OrderedWork::isJoined(cudaStream_t stream) {
  return std::ranges::all_of(streams, [&](const auto &other) {
    return countOf(other.second, other.first) <= countOf(streams[stream], other.first);
  });
}

void OrderedWork::complete(const Clock &clock) {
  for (auto node = nodes.begin(); node != nodes.end();) {
    if (countOf(node->end, node->stream) > countOf(clock, node->stream)) {
      ++node;
      continue;
    }
    Work work = std::move(node->work);
    node = nodes.erase(node);
    work();
  }
}

void SimulatedGraph::launch() {
  const bool originFirst = launches++ % 2 == 1;
  OrderedWork run = work;
  for (const OrderedWork::Node &node : work.pending())
    if ((node.stream == origin) == originFirst)
      run.complete(node.end);
  run.complete(work.end(origin));
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

bool SimulatedStreams::isCapturing(cudaStream_t stream) const {
  std::lock_guard lock(mutex);
  return captured && captured->contains(stream);
}

void SimulatedStreams::run(cudaStream_t stream, Work work) {
  std::lock_guard lock(mutex);
  if (isCapturing(stream))
    captured->add(stream, std::move(work));
  else if (stream == torchStream)
    work();
  else
    enqueued.add(stream, std::move(work));
}

void SimulatedStreams::record(cudaEvent_t event, cudaStream_t stream) {
  std::lock_guard lock(mutex);
  (isCapturing(stream) ? *captured : enqueued).record(event, stream);
}

void SimulatedStreams::wait(cudaStream_t stream, cudaEvent_t event) {
  std::lock_guard lock(mutex);
  if (captured && captured->contains(event))
    return captured->wait(stream, event);
  // A capture does not wait for what is outside of it.
  invalid |= isCapturing(stream);
  enqueued.wait(stream, event);
  if (stream == torchStream)
    enqueued.complete(enqueued.end(stream));
}

void SimulatedStreams::synchronizeAll() {
  std::lock_guard lock(mutex);
  while (!enqueued.pending().empty()) {
    const OrderedWork::Clock end = enqueued.pending().front().end; // a copy: complete() erases it
    enqueued.complete(end);
  }
}

void SimulatedStreams::begin(cudaStream_t stream) {
  std::lock_guard lock(mutex);
  // Operators that are captured run once, for their results' sake.
  synchronizeAll();
  captured.emplace().join(stream);
  invalid = false;
}

cudaError_t SimulatedStreams::end(cudaStream_t origin, std::shared_ptr<SimulatedGraph> *graph) {
  std::lock_guard lock(mutex);
  OrderedWork work = *std::exchange(captured, std::nullopt);
  if (invalid)
    return cudaErrorStreamCaptureInvalidated;
  if (!work.isJoined(origin))
    return cudaErrorStreamCaptureUnjoined;
  *graph = std::make_shared<SimulatedGraph>(origin, std::move(work));
  return cudaSuccess;
}
