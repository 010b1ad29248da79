//===- CudaFakeTransport.h - Fake collectives on a GPU -------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_CUDA_CUDAFAKETRANSPORT_H
#define FSDP_RUNTIME_CUDA_CUDAFAKETRANSPORT_H

#include "comm/FakeCommunicator.h"
#include "cuda/CudaDevice.h"

namespace fsdp::rt {

/// Copies within the device, in the order of the lane's stream. Kernels take the required time.
class CudaFakeTransport final : public FakeTransport {
public:
  /// The device outlives the object.
  explicit CudaFakeTransport(CudaDevice &device) : device(device) {}

  void prepare(unsigned numLanes) override { streams.resize(numLanes); }
  Result<std::unique_ptr<Memory>> allocate(size_t bytes) override { return device.allocate(bytes); }
  Status copy(unsigned lane, void *to, const void *from, size_t bytes) override;
  Status startTimer(unsigned lane) override;
  Status awaitTimer(unsigned lane, uint64_t nanoseconds) override;
  bool useStream(unsigned lane, Stream &stream) override;
  bool isAsynchronous() const override { return true; }

private:
  /// Calls start(stream) with the lane's stream.
  template <typename Launch> Status launch(unsigned lane, const char *name, Launch &&start);

  CudaDevice &device;
  std::vector<CudaStream *> streams; // by lane; null: no stream
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_CUDAFAKETRANSPORT_H
