//===- NetworkProfiler.h - Measures collectives and contention ----*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_NETWORKPROFILER_H
#define FSDP_TOOLS_PROFILE_NETWORKPROFILER_H

#include "CollectiveStreams.h"
#include "CollectiveTimer.h"
#include "fsdp/CostModel/Network.h"

namespace fsdp::profile {

struct NetworkOptions {
  /// Gathers and reductions of 8 KiB (or a little more, so that all ranks can share it) to this.
  size_t largestBytes;
  /// Of the collectives whose contention is measured.
  size_t contentionBytes;
  /// Collectives walk through this much memory, several times a last-level cache and at least five
  /// times the largest.
  size_t arenaBytes;
  /// Rows and columns of the matrices whose products collectives contend with.
  int64_t productSize;
  int samples = 20;
  std::chrono::milliseconds deadline{std::chrono::seconds(60)};

  /// Sizes for CPUs, and for GPUs.
  static NetworkOptions ofCpus(int samples);
  static NetworkOptions ofGpus(int samples);
};

/// Measures the collectives of all ranks as the training binary runs them (on its streams, in its
/// arena) and fits their lines. The result has no name and no source, and is the same on all ranks;
/// errors are the rank's own.
rt::Result<cost::Network> measureNetwork(rt::Device &device, rt::Communicator &communicator,
                                         const NetworkOptions &options);

/// By how much collectives of `bytes` and products slow each other down: what makes the scheduler's
/// model of the time that they take together equal to the measured one. Computation stands still at
/// 100, the largest factor, as it does where a rank has one core; what it does to collectives
/// cannot be told then.
rt::Result<schedule::Contention> measureContention(CollectiveStreams &streams,
                                                   CollectiveTimer &timer, size_t bytes,
                                                   int64_t productSize);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_NETWORKPROFILER_H
