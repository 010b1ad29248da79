//===- StagedCommunicator.h - A device's collectives, on host memory -*- C++ -*-===//
//
// Lets the conformance suite, which looks at memory of the host, run over a communicator of
// devices: inputs are copied to the device, and outputs back. What lies in the arena lies at the
// same place of the device's arena.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_RUNTIME_COMM_STAGEDCOMMUNICATOR_H
#define FSDP_TEST_RUNTIME_COMM_STAGEDCOMMUNICATOR_H

#include "comm/StandardLanes.h"

namespace fsdp::rt {

class StagedCommunicator final : public Communicator {
public:
  /// Gives the lanes streams of `device`.
  StagedCommunicator(std::unique_ptr<Device> device, std::unique_ptr<Communicator> inner);

  Result<std::byte *> makeArena(size_t bytes) override;
  Status allGather(unsigned lane, const void *input, void *output, size_t bytes) override;
  Status reduceScatter(unsigned lane, const void *input, void *output, size_t count,
                       fsdp_dtype dtype, ReduceOp op) override;
  Status reduceScatterScaled(unsigned lane, void *input, void *output, size_t count,
                             fsdp_dtype dtype, double factor) override;
  Status divide(unsigned lane, void *data, size_t count, fsdp_dtype dtype, double divisor) override;
  Status allReduce(unsigned lane, void *data, size_t count, fsdp_dtype dtype, ReduceOp op) override;
  Status broadcast(unsigned lane, void *data, size_t bytes, unsigned root) override;
  Status barrier(unsigned lane) override { return inner->barrier(lane); }
  Status health() override { return inner->health(); }
  void abort(const Status &reason) override { inner->abort(reason); }

private:
  /// Where a range of host memory lies on the device while a collective runs.
  struct Staged {
    std::byte *address = nullptr;
    std::unique_ptr<Memory> memory; // unless it lies in the arena
  };
  Result<Staged> stage(const void *data, size_t bytes);
  /// Copies [wholeBytes at `whole`] to the device, runs `collective(whole, part)` with the places
  /// of both on the device, and copies [resultBytes at `result`] back. `part` may lie in `whole`.
  template <typename Collective>
  Status run(unsigned lane, void *whole, size_t wholeBytes, void *part, size_t partBytes,
             void *result, size_t resultBytes, Collective &&collective);

  std::unique_ptr<Device> device;
  std::unique_ptr<Communicator> inner;
  std::vector<std::unique_ptr<Stream>> streams; // by lane
  std::vector<char> followsStream;              // by lane
  std::unique_ptr<Memory> arena; // the host's image
  std::byte *deviceArena = nullptr;
};

} // namespace fsdp::rt

#endif // FSDP_TEST_RUNTIME_COMM_STAGEDCOMMUNICATOR_H
