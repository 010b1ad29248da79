//===- RefitNetwork.h - A network with the durations of a run ----*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_REFITNETWORK_H
#define FSDP_TOOLS_PROFILE_REFITNETWORK_H

#include "Launches.h"
#include "llvm/ADT/ArrayRef.h"

namespace fsdp::profile {

/// One execution of a collective.
struct CollectiveRun {
  SizedCollective collective;
  explain::Undisturbed duration;
};

/// The network with measured durations of the collectives that have run: the medians, by size. For
/// a size that has run with nothing beside it often enough, only these executions count; for
/// others, those whose undisturbed duration is known. Other sizes are scaled (RefitCurve.h). All
/// else stays, also the costs of ranks with a stride where the network has levels, as it measures
/// consecutive ranks.
cost::Network refitNetwork(cost::Network network, llvm::ArrayRef<CollectiveRun> runs);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_REFITNETWORK_H
