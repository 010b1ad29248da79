//===- SimulatedStreams.h - When the work of streams runs -------*- C++ -*-===//
//
// What the effects of recorded calls go through. A GPU runs the work of several streams in any
// order that events allow. Here it runs in orders that show where an event is missing:
//
// - Torch's operators run when they are called, and so does all else on their stream. The work of
//   other streams runs as late as possible: when that stream or the host waits for it.
// - Captured work, torch's operators too, becomes nodes of a graph. Launches of the graph run by
//   turns the work of the other streams as early as possible, and as late as possible.
//
// As CUDA does, refuses to end a capture whose streams have not all come together in the one that
// began it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_RUNTIME_CUDA_SIMULATEDSTREAMS_H
#define FSDP_TEST_RUNTIME_CUDA_SIMULATEDSTREAMS_H

#include <cuda_runtime_api.h>

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace fsdp::rt {

/// Work of several streams, and the order that streams and events give it.
class OrderedWork {
public:
  using Work = std::function<void()>;
  /// A point in the work: how much of each stream's comes before it.
  using Clock = std::map<cudaStream_t, unsigned>;
  struct Node {
    cudaStream_t stream;
    Clock end; // the point behind it
    Work work;
  };

  void add(cudaStream_t stream, Work work);
  void record(cudaEvent_t event, cudaStream_t stream) { events[event] = streams[stream]; }
  void wait(cudaStream_t stream, cudaEvent_t event);
  /// Adds `stream` even if there is no work before it.
  void join(cudaStream_t stream) { streams.try_emplace(stream); }
  bool contains(cudaStream_t stream) const { return streams.contains(stream); }
  bool contains(cudaEvent_t event) const { return events.contains(event); }
  const Clock &end(cudaStream_t stream) { return streams[stream]; }
  const Clock &end(cudaEvent_t event) { return events[event]; }
  /// Whether the other streams' work comes before the end of `stream`.
  bool isJoined(cudaStream_t stream);
  /// What has not run, in the order in which it was added.
  const std::list<Node> &pending() const { return nodes; }
  /// Runs what comes before `clock`.
  void complete(const Clock &clock);

private:
  std::map<cudaStream_t, Clock> streams; // behind their work
  std::map<cudaEvent_t, Clock> events;   // as last recorded
  std::list<Node> nodes;
};

class SimulatedGraph {
public:
  SimulatedGraph(cudaStream_t origin, OrderedWork work) : origin(origin), work(std::move(work)) {}
  void launch();

private:
  cudaStream_t origin;
  OrderedWork work;
  unsigned launches = 0;
};

class SimulatedStreams {
public:
  using Work = OrderedWork::Work;

  /// The stream of torch's operators, or null.
  void setTorchStream(cudaStream_t stream) { torchStream = stream; }
  /// Enqueues `work`, or captures it.
  void run(cudaStream_t stream, Work work);
  void record(cudaEvent_t event, cudaStream_t stream);
  void wait(cudaStream_t stream, cudaEvent_t event);
  /// What is being captured the host may not wait for: the capture is lost.
  template <typename Handle> cudaError_t synchronize(Handle streamOrEvent);
  void synchronizeAll();
  bool isCapturing(cudaStream_t stream) const;
  void begin(cudaStream_t stream);
  cudaError_t end(cudaStream_t origin, std::shared_ptr<SimulatedGraph> *graph);

private:
  mutable std::recursive_mutex mutex;
  cudaStream_t torchStream = nullptr;
  OrderedWork enqueued;
  std::optional<OrderedWork> captured;
  bool invalid = false; // the capture
};

template <typename Handle> cudaError_t SimulatedStreams::synchronize(Handle streamOrEvent) {
  std::lock_guard lock(mutex);
  if (captured && captured->contains(streamOrEvent)) {
    invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  enqueued.complete(enqueued.end(streamOrEvent));
  return cudaSuccess;
}

} // namespace fsdp::rt

#endif // FSDP_TEST_RUNTIME_CUDA_SIMULATEDSTREAMS_H
