//===- Weights.h - Full weights in and out of a rank's arena -----*- C++ -*-===//
//
// Weights files hold whole tensors under their qualified names, for any layout and number of ranks.
// The plan's table of pieces says which elements of which parameter are where on which rank.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_WEIGHTS_H
#define FSDP_RUNTIME_WEIGHTS_H

#include "Status.h"
#include "checkpoint/Names.h"
#include "checkpoint/WeightsFiles.h"
#include "comm/Communicator.h"
#include "plan/PlanView.h"

#include <functional>

namespace fsdp::rt {

/// Fails unless `files` hold every parameter (under its name or an alias of it) and every buffer of
/// the plan that is not transient with the plan's shape and dtype, and nothing else. Reads headers
/// only. The error names the first such tensor and both shapes.
Status checkWeights(const PlanView &plan, const WeightsFiles &files);

/// Called with the number of bytes read so far and their total.
using ReadProgress = std::function<void(int64_t done, int64_t total)>;

/// Copies `rank`'s pieces of every parameter, and every non-transient buffer, to their offsets in
/// `arena` (zeroed, plan.arena_bytes long; padding stays zero). Parameters on the host go to
/// `hostArena` (likewise; null if the plan has none). Copies on `stream` of the arena's device, and
/// returns when they are complete. Reads each byte that the rank keeps once, in portions of 1 MiB,
/// and allocates nothing else; calls `read` after each portion. Fails as checkWeights does, or if a
/// parameter is stored under several names with different values.
Status loadWeights(const PlanView &plan, unsigned rank, Stream &stream, std::byte *arena,
                   std::byte *hostArena, const WeightsFiles &files, const ReadProgress &read = {});

/// Gathers the full weights group by group over the control lane; rank 0 writes them, each
/// parameter under its name and its aliases, and rank 0's buffers but transient ones. Called by all
/// ranks, between steps; `stream` copies out of the arena. A rank holds at most one gathered group
/// in host memory. A disk error is returned on rank 0 only, a failed collective on every rank.
Status saveWeights(const PlanView &plan, Communicator &communicator, Stream &stream,
                   const std::byte *arena, const std::byte *hostArena, const std::string &path);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_WEIGHTS_H
