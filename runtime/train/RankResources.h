//===- RankResources.h - A rank's device and communicator -------*- C++ -*-===//

#ifndef FSDP_RUNTIME_RANKRESOURCES_H
#define FSDP_RUNTIME_RANKRESOURCES_H

#include "backend/Backend.h"
#include "plan/PlanView.h"
#include "train/TrainOptions.h"

namespace fsdp::rt {

/// Device and communicator of a rank. Used by the thread that opened them.
struct RankResources {
  std::unique_ptr<Device> device;
  std::unique_ptr<Communicator> communicator; // over `device`, which outlives it
};

/// Opens the rank's device, number `localRank` of its host, and its collectives. `control` connects
/// the ranks' processes or threads, all on one host if `oneHost`; without a backend it is the
/// communicator itself. It is null for a fake run, which has no peers. If this rank fails, its
/// peers fail, too.
Result<RankResources> openRank(const PlanView &plan, const TrainOptions &options,
                               DeviceBackend *backend, unsigned localRank, bool oneHost,
                               std::unique_ptr<Communicator> control);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_RANKRESOURCES_H
