//===- NetworkProfiler.h - Measures collectives and contention ----*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_NETWORKPROFILER_H
#define FSDP_TOOLS_PROFILE_NETWORKPROFILER_H

#include "CollectiveStreams.h"
#include "CollectiveTimer.h"
#include "fsdp/CostModel/Network.h"

namespace fsdp::profile {

struct NetworkOptions {
  /// Gathers and reductions are measured from 8 KiB (rounded up to a multiple of the ranks) to this
  /// size.
  size_t largestBytes;
  /// Size of the collectives whose contention is measured.
  size_t contentionBytes;
  /// Successive collectives use different buffers in this much memory, several times a last-level
  /// cache and at least five times the largest collective.
  size_t arenaBytes;
  /// Rows and columns of the matrices in the products that contend with collectives.
  int64_t productSize;
  int samples = 20;
  std::chrono::milliseconds deadline{std::chrono::seconds(60)};

  /// Options for CPUs, and for GPUs.
  static NetworkOptions ofCpus(int samples);
  static NetworkOptions ofGpus(int samples);
};

/// Measures the collectives of all ranks as the training binary runs them (on its streams, in its
/// arena) and fits a line (latency and bandwidth) to each. The result has no name and no source,
/// and is the same on all ranks; errors are the rank's own.
rt::Result<cost::Network> measureNetwork(rt::Device &device, rt::Communicator &communicator,
                                         const NetworkOptions &options);

/// Measures how much collectives of `bytes` and matrix products slow each other down: the factors
/// for which the scheduler's model of their combined time equals the measured time. The largest
/// factor is 100, at which computation stops, as it does on a rank with one core; the slowdown of
/// collectives cannot be measured then.
rt::Result<schedule::Contention> measureContention(CollectiveStreams &streams,
                                                   CollectiveTimer &timer, size_t bytes,
                                                   int64_t productSize);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_NETWORKPROFILER_H
