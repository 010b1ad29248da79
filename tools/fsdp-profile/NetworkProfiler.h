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

/// How much collectives slow down computation and each other.
struct Contention {
  double lanes = 1, computation = 1;
};

/// Lanes: by how much two lanes slow each other, from the time that gathers and reductions of
/// `bytes` take together and apart, in [1, 2]. Computation: the slowdown k of computation during a
/// collective of duration c that makes the model's total (the collective's duration, less the
/// progress c / k that computation makes meanwhile) equal to the measured one; at most 100, where
/// computation stands still, as it does where a rank has one core.
rt::Result<Contention> measureContention(CollectiveStreams &streams, CollectiveTimer &timer,
                                         size_t bytes, int64_t productSize);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_NETWORKPROFILER_H
