//===- RankResources.h - A rank's device and communicator -------*- C++ -*-===//

#ifndef FSDP_RUNTIME_RANKRESOURCES_H
#define FSDP_RUNTIME_RANKRESOURCES_H

#include "backend/Backend.h"
#include "plan/PlanView.h"
#include "train/TrainOptions.h"

namespace fsdp::rt {

/// What a rank runs its steps with. Belongs to the thread that opened it.
struct RankResources {
  std::unique_ptr<Device> device;
  std::unique_ptr<Communicator> communicator; // over `device`, which outlives it
};

/// Opens the rank's device, number `localRank` of its host, and its collectives. `control` connects
/// the hosts of the ranks, on one host if `oneHost`; without a backend it is the communicator
/// itself. It is null for a fake run, which has no peers. If this rank fails, its peers do too.
Result<RankResources> openRank(const PlanView &plan, const TrainOptions &options,
                               DeviceBackend *backend, unsigned localRank, bool oneHost,
                               std::unique_ptr<Communicator> control);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_RANKRESOURCES_H
