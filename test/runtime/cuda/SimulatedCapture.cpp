//===- SimulatedCapture.cpp - Which work a capture takes up ---------------===//

#include "SimulatedCapture.h"

#include <algorithm>
#include <utility>

using namespace fsdp::rt;

void SimulatedCapture::begin(cudaStream_t stream) {
  streams = {{stream, {}}};
  events.clear();
  nodes.clear();
  invalid = false;
}

void SimulatedCapture::run(cudaStream_t stream, Node effect) {
  auto found = streams.find(stream);
  if (found == streams.end())
    return effect();
  ++found->second[stream];
  nodes.push_back(std::move(effect));
}

void SimulatedCapture::record(cudaEvent_t event, cudaStream_t stream) {
  if (auto found = streams.find(stream); found != streams.end())
    events[event] = found->second;
  else
    events.erase(event);
}

void SimulatedCapture::wait(cudaStream_t stream, cudaEvent_t event) {
  auto found = events.find(event);
  if (found == events.end())
    return;
  // The stream joins the capture even if nothing has run before the event.
  auto &clock = streams[stream];
  for (auto [other, count] : found->second)
    clock[other] = std::max(clock[other], count);
}

cudaError_t SimulatedCapture::synchronize(bool captured) {
  invalid |= captured;
  return captured ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t SimulatedCapture::end(cudaStream_t origin, std::vector<Node> *graph) {
  auto captured = std::exchange(streams, {});
  events.clear();
  *graph = std::exchange(nodes, {});
  if (invalid)
    return cudaErrorStreamCaptureInvalidated;
  for (auto &[stream, clock] : captured)
    if (clock[stream] > captured[origin][stream])
      return cudaErrorStreamCaptureUnjoined;
  return cudaSuccess;
}
