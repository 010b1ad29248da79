//===- SimulatedCapture.h - Which work a capture takes up -------*- C++ -*-===//
//
// What the effects of recorded calls go through: they happen at once, as every stream's work does
// here, unless their stream is being captured, directly or by an event that a captured stream
// recorded. Then they become nodes of the graph. As CUDA does, refuses to end a capture whose
// streams have not all come together in the one that began it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_RUNTIME_CUDA_SIMULATEDCAPTURE_H
#define FSDP_TEST_RUNTIME_CUDA_SIMULATEDCAPTURE_H

#include <cuda_runtime_api.h>

#include <functional>
#include <map>
#include <vector>

namespace fsdp::rt {

class SimulatedCapture {
public:
  using Node = std::function<void()>;

  void begin(cudaStream_t stream);
  /// Runs `effect` on `stream` now, or when the graph is launched.
  void run(cudaStream_t stream, Node effect);
  void record(cudaEvent_t event, cudaStream_t stream);
  void wait(cudaStream_t stream, cudaEvent_t event);
  bool isCapturing(cudaStream_t stream) const { return streams.contains(stream); }
  /// The host may not wait for what is being captured: the capture is lost.
  cudaError_t synchronize(bool captured);
  bool isCapturing(cudaEvent_t event) const { return events.contains(event); }
  cudaError_t end(cudaStream_t origin, std::vector<Node> *graph);

private:
  /// How many nodes of each stream come before a point.
  using Clock = std::map<cudaStream_t, unsigned>;

  std::map<cudaStream_t, Clock> streams; // those that capture
  std::map<cudaEvent_t, Clock> events;   // that they recorded
  std::vector<Node> nodes;
  bool invalid = false;
};

} // namespace fsdp::rt

#endif // FSDP_TEST_RUNTIME_CUDA_SIMULATEDCAPTURE_H
