//===- CollectiveProfiler.h - Measures collectives and contention -*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_COLLECTIVEPROFILER_H
#define FSDP_TOOLS_PROFILE_COLLECTIVEPROFILER_H

#include "comm/Communicator.h"
#include "fsdp/CostModel/Network.h"

namespace fsdp::profile {

struct CollectiveOptions {
  unsigned ranks = 2;
  std::string communicator = "shm"; // or local
  int samples = 20;
};

/// Measures gathers and reductions of 8 KiB to 16 MiB as the training binary runs them (through its
/// streams, in its arena), fits their lines, and measures contention. Returns the network's JSON;
/// the fits are printed. No thread of this process must run. Errors name the rank.
llvm::Expected<std::string> profileCollectives(const CollectiveOptions &options);

/// What collectives do to computation and to each other.
struct Contention {
  double lanes = 1, computation = 1;
};

/// Lanes: by how much two lanes slow each other, from the time that gathers and reductions of
/// `bytes` take together and apart, in [1, 2]. Computation: the slowdown k of computation during a
/// collective of duration c that makes the model's total (the collective's duration, less the
/// progress c / k that computation makes meanwhile) equal to the measured one; at most 100, where
/// computation stands still, as it does where a rank has one core.
rt::Result<Contention> measureContention(rt::Communicator &communicator, std::byte *arena,
                                         size_t bytes, int samples);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_COLLECTIVEPROFILER_H
