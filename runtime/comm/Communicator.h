//===- Communicator.h - Collectives between the ranks of a run ---*- C++ -*-===//
//
// One interface, several backends: `local` (one thread per rank in one process), `shm` (processes
// on one host), `gloo` (c10d, across hosts). All pass one conformance suite (test/runtime/comm).
//
// A communicator has lanes, numbered from 0. Each lane is a set of ranks that meet, with its own
// order of collectives, so that gathers and reductions may be in flight at the same time. All ranks
// of a lane issue the same collectives in the same order. Each lane is used by one thread at a
// time. Collectives block the calling thread, which is a stream's worker, until the output is
// complete and the input may be overwritten.
//
// Lane 0 is control: all ranks meet on it, to exchange messages. The other lanes are those that the
// run asks for (CommunicatorOptions::lanes), one for each entry of a plan's table of communicators.
// A failure in any lane is a failure of all ranks.
//
// A device's communicator (`nccl`, and `fake` on a device) is asynchronous on all lanes but
// control: a collective is enqueued on the stream that useStream() gave to its lane, on device
// memory, and statements below about its completion hold in the order of that stream. The control
// lane takes host memory and blocks, as in every backend.
//
// Failures: a dead or stalled peer, or an abort, makes every pending and later call on every rank
// return an error within the deadline of CommunicatorOptions. Nothing throws, nothing calls
// abort().
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMMUNICATOR_H
#define FSDP_RUNTIME_COMMUNICATOR_H

#include "Status.h"
#include "device/Device.h"
#include "fsdp/Plan/Abi.h"
#include "fsdp/Plan/RanksThatMeet.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::rt {

enum class ReduceOp { Sum, Average, Max };

/// The lane on which all ranks meet.
inline constexpr unsigned kControlLane = 0;

/// The ranks that meet on a lane: `ranks` ranks, `stride` apart (fsdp/Plan/RanksThatMeet.h).
struct LaneShape {
  std::string name; // "gather", for messages
  unsigned ranks = 1, stride = 1;
  bool byCopyEngine = false; // gathers of groups by the devices' copy engines, in NCCL

  bool operator==(const LaneShape &) const = default;
};

/// A hash of the lanes, equal on all ranks of one program.
uint64_t fingerprintOf(const std::vector<LaneShape> &lanes);

/// The ranks with which a rank meets on a lane.
using LaneRanks = plan::RanksThatMeet;

class Communicator {
public:
  virtual ~Communicator() = default;

  unsigned rank() const { return myRank; }
  unsigned size() const { return numRanks; }
  unsigned numLanes() const { return static_cast<unsigned>(shapes.size()); }
  /// All lanes, control first.
  const std::vector<LaneShape> &lanes() const { return shapes; }
  /// "gather lane".
  std::string laneName(unsigned lane) const;

  /// The ranks with which this rank meets on a lane.
  LaneRanks ranksOf(unsigned lane) const {
    return plan::getRanksThatMeet(shapes[lane].ranks, shapes[lane].stride, myRank);
  }

  /// The rank's arena: `bytes` of zeroed memory, 64-byte aligned, of the same size on all ranks,
  /// owned by the communicator and valid until it is destroyed. Called once, by all ranks.
  /// Collectives whose input is in the arena read the peers' inputs in place if the backend can
  /// (shm, local); all ranks must then pass inputs at the same arena offset.
  virtual Result<std::byte *> makeArena(size_t bytes) = 0;

  /// Names the group of parameters of the next collective on the lane, for libraries
  /// (LibraryCollectives.h); "": no group. `group` outlives that collective.
  virtual void setGroup(unsigned lane, const char *group) {}

  // Below, ranks and their number are those of the lane: rank i is ranksOf(lane).at(i).

  /// output[r * bytes, (r + 1) * bytes) = input of rank r. `input` may be output + rank * bytes.
  virtual Status allGather(unsigned lane, const void *input, void *output, size_t bytes) = 0;

  /// `input` holds a block of `count` elements per rank; `output` receives the reduction of this
  /// rank's block over all ranks. Sums run in rank order, each addition rounded to the dtype
  /// (`gloo`: in an order of its own, fixed for a given size, at more than 2 ranks); Average
  /// divides the sum by the number of ranks.
  virtual Status reduceScatter(unsigned lane, const void *input, void *output, size_t count,
                               fsdp_dtype dtype, ReduceOp op) = 0;

  /// As reduceScatter() with a sum, but each input is multiplied by `factor` first, rounded to
  /// `dtype`, a floating-point type. Overwrites `input` if the backend has no such operation.
  virtual Status reduceScatterScaled(unsigned lane, void *input, void *output, size_t count,
                                     fsdp_dtype dtype, double factor);

  /// data[i] /= divisor, rounded to `dtype`, a floating-point type. Runs in the order of the lane's
  /// collectives, on this rank only.
  virtual Status divide(unsigned lane, void *data, size_t count, fsdp_dtype dtype, double divisor);

  /// data = reduction of `data` over all ranks; the same bits on all ranks.
  virtual Status allReduce(unsigned lane, void *data, size_t count, fsdp_dtype dtype,
                           ReduceOp op) = 0;

  /// data = data of rank `root`.
  virtual Status broadcast(unsigned lane, void *data, size_t bytes, unsigned root) = 0;

  virtual Status barrier(unsigned lane) = 0;

  /// Asks the communicator to run the collectives of `lane` on `stream`, which outlives their use.
  /// True: they are asynchronous on it from now on. False: this communicator blocks.
  virtual bool useStream(unsigned lane, Stream &stream) { return false; }

  /// The collectives of an asynchronous lane between these two are one launch. No collective runs
  /// before the end, which is called after an error too.
  virtual Status beginGroup(unsigned lane) { return {}; }
  virtual Status endGroup(unsigned lane) { return {}; }
  /// True if a launch of several collectives has one latency.
  virtual bool coalesces() const { return false; }

  /// Collectives issued on asynchronous lanes until endCapture() become part of a graph and do not
  /// run. An error says why that is not possible. `kept`: the graph will be launched, and destroyed
  /// before the communicator; if false, it is as if nothing had been issued.
  virtual Status beginCapture() { return Status::error("its collectives block the host"); }
  virtual void endCapture(bool kept) {}

  /// An error once the communicator has failed or a peer is known to be gone, as far as that can be
  /// found out without a collective. Never blocks for a peer; callable from any thread.
  virtual Status health() { return {}; }

  /// Makes pending and later calls fail, here and on the peers, with `reason` in their message.
  /// Their error names the rank that calls this, or the rank that `reason` names already. Callable
  /// from any thread.
  virtual void abort(const Status &reason) = 0;

protected:
  /// `lanes`: without control; the number of ranks of each lane divides `size`.
  Communicator(unsigned rank, unsigned size, std::vector<LaneShape> lanes);
  /// For a communicator that wraps or accompanies another.
  explicit Communicator(const Communicator &) = default;

  /// An error if `lane` is not a lane.
  Status checkLane(unsigned lane) const;
  /// The error of later calls: "aborted by rank <this rank>: <reason>", or the abort of another
  /// rank unchanged.
  Status abortStatus(const Status &reason) const;
  /// The same, with `name` for this rank.
  Status abortStatus(const Status &reason, const std::string &name) const;

private:
  unsigned myRank, numRanks;
  std::vector<LaneShape> shapes;
};

struct CommunicatorOptions {
  /// Lanes beside control, which always exists.
  std::vector<LaneShape> lanes = {};
  /// The number of all lanes, including control.
  unsigned numLanes() const { return 1 + static_cast<unsigned>(lanes.size()); }
  /// A collective that takes longer than this has failed.
  std::chrono::milliseconds deadline{std::chrono::seconds(60)};
  /// A rank that has not come to the rendezvous after this time is missing. Bounds the whole of
  /// connect(), plus at most kRendezvousGrace.
  std::chrono::milliseconds connectTimeout{std::chrono::seconds(60)};
};

/// Communicators of `size` ranks in this process, by rank; each is used by one rank's threads.
/// Empty if there is no memory.
std::vector<std::unique_ptr<Communicator>>
makeLocalCommunicators(unsigned size, const CommunicatorOptions &options);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMMUNICATOR_H
