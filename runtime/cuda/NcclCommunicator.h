//===- NcclCommunicator.h - Collectives of GPUs over NCCL -------*- C++ -*-===//
//
// Each lane but control is an NCCL communicator of its own, so that gathers and reductions overlap.
// It is split from a first NCCL communicator by the ranks that meet on the lane, and its
// collectives go to the stream that useStream() sets. The control lane is another communicator,
// between the hosts' processes or threads: it carries messages between ranks (the unique id, sizes,
// losses, the reason of an abort).
//
// The first NCCL communicator is non-blocking, so that missing ranks are an error after the connect
// timeout. The lanes split from it are blocking ones: in non-blocking mode NCCL starts a thread for
// every collective (NCCL 2.28.9, group.cc).
//
// Order of sums: NCCL's. Average multiplies each input by 1 / size before the sum, in the dtype's
// arithmetic, as NCCL does; at sizes that are powers of two that is the sum divided by size.
//
// Threads: a lane's collectives come from one thread. abort() and health() may be called from any.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CUDA_NCCLCOMMUNICATOR_H
#define FSDP_RUNTIME_CUDA_NCCLCOMMUNICATOR_H

#include "backend/Backend.h"
#include "comm/SharedRegion.h"
#include "cuda/CudaDevice.h"

#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace fsdp::rt {

class NcclCommunicator final : public Communicator {
public:
  /// Connects the ranks of `control`; all of them must call this. The device outlives the
  /// communicator, and must be open on the calling thread.
  static Result<std::unique_ptr<NcclCommunicator>>
  connect(CudaDevice &device, std::unique_ptr<Communicator> control, NcclOptions options);
  ~NcclCommunicator() override;

  /// From ncclMemAlloc, registered on every lane as a symmetric window, if all ranks can; else
  /// plain memory of the device. Zeroed.
  Result<std::byte *> makeArena(size_t bytes) override;
  /// How the arena was made, for people: "ncclMemAlloc, symmetric windows", or why not.
  const std::string &arenaNote() const { return note; }

  bool useStream(unsigned lane, Stream &stream) override;
  Status beginGroup(unsigned lane) override;
  Status endGroup(unsigned lane) override;
  bool coalesces() const override { return true; }
  Status beginCapture() override { return {}; }
  void endCapture(bool kept) override {
    if (kept)
      inGraph = true;
  }
  Status allGather(unsigned lane, const void *input, void *output, size_t bytes) override;
  Status reduceScatter(unsigned lane, const void *input, void *output, size_t count,
                       fsdp_dtype dtype, ReduceOp op) override;
  /// By NCCL's PreMulSum. The factor is rounded to `dtype`.
  Status reduceScatterScaled(unsigned lane, void *input, void *output, size_t count,
                             fsdp_dtype dtype, double factor) override;
  /// Multiplies by the reciprocal in fp32, as torch's div_ does on GPUs. Not of f64.
  Status divide(unsigned lane, void *data, size_t count, fsdp_dtype dtype, double divisor) override;
  Status allReduce(unsigned lane, void *data, size_t count, fsdp_dtype dtype, ReduceOp op) override;
  Status broadcast(unsigned lane, void *data, size_t bytes, unsigned root) override;
  /// Also waits for the lane's stream.
  Status barrier(unsigned lane) override;

  Status health() override;
  void abort(const Status &reason) override;

private:
  struct LaneState {
    // Held while NCCL is called, except by an abort that finds it held for too long.
    std::mutex mutex;
    ncclComm_t comm = nullptr;
    CudaStream *stream = nullptr;
    bool grouped = false;
    ncclWindow_t window = nullptr;
    std::map<std::pair<ncclDataType_t, double>, ncclRedOp_t> scalings;
  };

  NcclCommunicator(CudaDevice &device, std::unique_ptr<Communicator> control, NcclOptions options)
      : Communicator(*control), device(device), calls(device.cuda()), options(options),
        control(std::move(control)), states(numLanes()) {}

  Status initialize();
  Status connectRanks();
  Status split(unsigned lane);
  /// Waits until `comm` is ready, or the connect timeout.
  Status awaitReady(ncclComm_t comm, const std::string &what);

  Status allocateArena(size_t bytes, bool &fromNccl);
  Status registerArena();
  void deregisterArena();

  /// Calls `start(comm, stream)`, which returns NCCL's result.
  template <typename Start>
  Status enqueue(unsigned lane, const CollectiveDescriptor &what, Start &&start);
  /// Makes the operator of a scaled sum, once for each factor. The caller holds the lane's mutex.
  ncclResult_t scaling(LaneState &lane, ncclDataType_t dtype, double factor, ncclRedOp_t *op);
  /// Closes a group that an error leaves open. The caller holds the lane's mutex.
  void leaveGroup(LaneState &lane);
  Status failureReason();
  Status ncclError(const std::string &what, ncclResult_t result, ncclComm_t comm);

  CudaDevice &device;
  CudaCalls &calls;
  const NcclOptions options;
  std::unique_ptr<Communicator> control;
  ncclComm_t root = nullptr;
  std::vector<LaneState> states; // by lane; control's stays empty

  std::byte *arena = nullptr;
  size_t arenaBytes = 0;
  bool arenaFromNccl = false;
  std::string note;

  std::mutex failureMutex;
  Status failure; // guarded by `failureMutex`
  // NCCL's abort returns when all graphs that use the communicator are gone.
  std::atomic<bool> inGraph{false};
  std::vector<std::thread> aborts;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_NCCLCOMMUNICATOR_H
