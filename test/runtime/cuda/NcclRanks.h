//===- NcclRanks.h - NCCL communicators over recorded calls -----*- C++ -*-===//

#ifndef FSDP_TEST_RUNTIME_CUDA_NCCLRANKS_H
#define FSDP_TEST_RUNTIME_CUDA_NCCLRANKS_H

#include "RecordingCalls.h"
#include "comm/StandardLanes.h"
#include "cuda/NcclCommunicator.h"

#include <functional>
#include <thread>

namespace fsdp::rt {

/// One rank, and the calls that it makes.
struct NcclRank {
  RecordingCalls calls;
  std::unique_ptr<CudaDevice> device;
  Result<std::unique_ptr<NcclCommunicator>> communicator = Status::error("not connected");

  NcclCommunicator &operator*() { return **communicator; }
};

/// Runs `body` on a thread per rank, with its number.
inline void onEach(unsigned ranks, const std::function<void(unsigned)> &body) {
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread &thread : threads)
    thread.join();
}

/// Opens every rank's device, lets `prepare` change its calls, and connects them by NCCL over
/// communicators of this process.
inline std::vector<std::unique_ptr<NcclRank>>
connectRanks(unsigned size, NcclOptions options = {},
             const std::function<void(unsigned, RecordingCalls &)> &prepare = {}) {
  if (options.communication.lanes.empty())
    options.communication.lanes = standardLanes(size);
  auto controls = makeLocalCommunicators(size, options.communication);
  std::vector<std::unique_ptr<NcclRank>> ranks(size);
  onEach(size, [&](unsigned rank) {
    ranks[rank] = std::make_unique<NcclRank>();
    NcclRank &own = *ranks[rank];
    own.device = std::move(*CudaDevice::open(own.calls, {}));
    own.calls.take();
    if (prepare)
      prepare(rank, own.calls);
    own.communicator = NcclCommunicator::connect(*own.device, std::move(controls[rank]), options);
  });
  return ranks;
}

} // namespace fsdp::rt

#endif // FSDP_TEST_RUNTIME_CUDA_NCCLRANKS_H
