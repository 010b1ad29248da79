//===- Launches.h - The collectives of a step, as costed ---------*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_LAUNCHES_H
#define FSDP_TOOLS_PROFILE_LAUNCHES_H

#include "fsdp/Analysis/GroupTable.h"
#include "fsdp/CostModel/Network.h"
#include "fsdp/Explain/ExplainModule.h"
#include "fsdp/Explain/Undisturbed.h"

#include <optional>
#include <vector>

namespace fsdp::profile {

/// A collective over `ranks` ranks that are `stride` apart, of whole groups' bytes.
struct SizedCollective {
  cost::CollectiveKind kind;
  int64_t ranks, stride, bytes;
};

struct Launch {
  explain::RunCollective::Kind kind;
  double latencyNs; // as predicted
  /// The collective whose cost the network gives. None for several collectives one after another,
  /// which have one duration together, and for gathers that include copies from the host.
  std::optional<SizedCollective> costed;
};

/// The launches of a scheduled step in the order of `pairCollectives`.
std::vector<Launch> readLaunches(const explain::ExplainedModule &module, const GroupTable &groups,
                                 const cost::Network &network);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_LAUNCHES_H
