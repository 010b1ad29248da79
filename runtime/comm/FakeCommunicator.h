//===- FakeCommunicator.h - The collectives of ranks that are not there -*- C++ -*-===//
//
// One process acts as rank 0 of any number of ranks: collectives cost what they would, and nobody
// else takes part. All ranks are taken to hold what this one holds, so a gather fills the whole
// output with copies of the own shard, an average is the own block and a maximum too; a sum is
// refused, but for an all-reduce of one double (the gradients' norm), which leaves the own
// value. An all-reduce over n ranks moves what a ring moves, 2 (n - 1) / n of its bytes. For
// planning runs and for measurements of overlap on one device; what such a run trains is worth
// nothing.
//
// Cost: the memory traffic of the bytes that would arrive, (ranks - 1) x bytes per rank, copied
// within the device. With a bandwidth a collective takes at least the time latency + arriving bytes
// / bandwidth (the α-β model), copies included, during which the stream is busy.
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
  double bandwidthBytesPerSec = 0; // 0: as fast as copies are
  /// The largest input of a reduce-scatter, per rank: arriving blocks are copied there.
  size_t largestBlockBytes = 0;
};

/// What the collectives of all lanes but control do to memory. Calls of a lane come from one
/// thread.
class FakeTransport {
public:
  virtual ~FakeTransport() = default;
  /// Before all other calls: how many lanes there are, control among them.
  virtual void prepare(unsigned numLanes) = 0;
  virtual Result<std::unique_ptr<Memory>> allocate(size_t bytes) = 0;
  virtual Status copy(unsigned lane, void *to, const void *from, size_t bytes) = 0;
  /// Notes when the lane gets here.
  virtual Status startTimer(unsigned lane) = 0;
  /// The lane stands still until `nanoseconds` have passed since startTimer().
  virtual Status awaitTimer(unsigned lane, uint64_t nanoseconds) = 0;
  virtual bool useStream(unsigned lane, Stream &stream) { return false; }
  /// Everything is enqueued on streams.
  virtual bool isAsynchronous() const { return false; }
};

/// Copies by the calling thread, which sleeps for what is left of a collective's time.
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
  /// Copies on the lane; on the control lane, whose memory is the host's, at once.
  Status copy(unsigned lane, void *to, const void *from, size_t bytes);
  /// `copies`, which take at least the time in which `arriving` bytes come.
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
