//===- FakeCommunicator.h - Collectives without peers --------- -*- C++ -*-===//
//
// One process acts as rank 0 of any number of ranks, without peers. Collectives take about the time
// that they would take among all ranks. All ranks are assumed to hold this rank's data: a gather
// fills the whole output with copies of this rank's shard, and a reduction yields this rank's
// block, a sum too, as an average would (on the control lane, a sum is an error). An all-reduce
// over n ranks moves as many bytes as a ring does, 2 (n - 1) / n of its size. For planning runs and
// for measurements of overlap on one device; the trained weights of such a run are meaningless.
//
// Cost: the bytes that would arrive, (ranks - 1) x bytes per rank, are copied within the device.
// With a bandwidth, a collective occupies its stream for at least latency + arriving bytes /
// bandwidth (the α-β model), copies included.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_FAKECOMMUNICATOR_H
#define FSDP_RUNTIME_COMM_FAKECOMMUNICATOR_H

#include "comm/SharedRegion.h"

#include <mutex>

namespace fsdp::rt {

struct FakeOptions {
  unsigned ranks = 1;
  std::vector<LaneShape> lanes = {}; // beside control
  double latencyNs = 0;
  double bandwidthBytesPerSec = 0; // 0: only the copies take time
  /// Size of the buffer for arriving blocks: the largest input of a reduce-scatter, per rank.
  size_t largestBlockBytes = 0;
};

/// The copies and timers of the collectives of all lanes but control. Calls for a lane come from
/// one thread.
class FakeTransport {
public:
  virtual ~FakeTransport() = default;
  /// Called before all others. `numLanes` includes control.
  virtual void prepare(unsigned numLanes) = 0;
  virtual Result<std::unique_ptr<Memory>> allocate(size_t bytes) = 0;
  virtual Status copy(unsigned lane, void *to, const void *from, size_t bytes) = 0;
  /// Notes the time at which the lane reaches this point.
  virtual Status startTimer(unsigned lane) = 0;
  /// Blocks the lane until `nanoseconds` have passed since startTimer().
  virtual Status awaitTimer(unsigned lane, uint64_t nanoseconds) = 0;
  virtual bool useStream(unsigned lane, Stream &stream) { return false; }
  /// True if all calls enqueue on streams.
  virtual bool isAsynchronous() const { return false; }
};

/// Copies on the calling thread, which sleeps for the rest of a collective's time.
std::unique_ptr<FakeTransport> makeCpuFakeTransport();

class FakeCommunicator final : public Communicator {
public:
  /// An error if there is no memory for arriving blocks.
  static Result<std::unique_ptr<Communicator>> create(FakeOptions options,
                                                      std::unique_ptr<FakeTransport> transport);

  Result<std::byte *> makeArena(size_t bytes) override;
  Status allGather(unsigned lane, const void *input, void *output, size_t bytes) override;
  Status reduceScatter(unsigned lane, const void *input, void *output, size_t count,
                       fsdp_dtype dtype, ReduceOp op) override;
  Status reduceScatterScaled(unsigned lane, void *input, void *output, size_t count,
                             fsdp_dtype dtype, double factor) override;
  Status divide(unsigned lane, void *data, size_t count, fsdp_dtype dtype, double divisor) override;
  Status allReduce(unsigned lane, void *data, size_t count, fsdp_dtype dtype, ReduceOp op) override;
  Status broadcast(unsigned lane, void *data, size_t bytes, unsigned root) override;
  Status barrier(unsigned lane) override;
  bool useStream(unsigned lane, Stream &stream) override {
    return transport->useStream(lane, stream);
  }
  Status beginCapture() override {
    return transport->isAsynchronous() ? Status() : Communicator::beginCapture();
  }
  Status health() override;
  void abort(const Status &reason) override;

private:
  FakeCommunicator(const FakeOptions &options, std::unique_ptr<FakeTransport> transport)
      : Communicator(/*rank=*/0, options.ranks, options.lanes), options(options),
        transport(std::move(transport)), arrivals(numLanes()) {}

  Status check(unsigned lane, const CollectiveDescriptor &what);
  /// Copies on the lane's stream; on the control lane, which uses host memory, at once.
  Status copy(unsigned lane, void *to, const void *from, size_t bytes);
  /// Runs `copies`, and takes at least the time in which `arriving` bytes would arrive.
  template <typename Copies> Status transfer(unsigned lane, size_t arriving, Copies &&copies);

  const FakeOptions options;
  std::unique_ptr<FakeTransport> transport;
  std::unique_ptr<Memory> arena;
  std::vector<std::unique_ptr<Memory>> arrivals; // by lane
  std::mutex mutex;
  Status failure; // guarded by `mutex`
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_FAKECOMMUNICATOR_H
