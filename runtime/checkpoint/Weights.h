//===- Weights.h - Full weights in and out of a rank's arena -----*- C++ -*-===//
//
// Weights files name whole tensors by qualified name, whatever the layout and the number of ranks:
// the plan's piece tables say which elements of which parameter lie where on which rank.
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

/// Told how many bytes, of how many, have been read.
using ReadProgress = std::function<void(int64_t done, int64_t total)>;

/// Copies `rank`'s pieces of every parameter into its shards, and every such buffer, into `arena`
/// (zeroed, plan.arena_bytes long: padding stays zero), or what lies on the host into `hostArena`
/// (likewise; null where the plan has none), by `stream` of the arena's device; all has
/// arrived when it returns. Reads each byte that the rank keeps once, in pieces of 1 MiB, and takes
/// no further memory; `read` hears of each piece. Fails as checkWeights does, or if a parameter
/// stands under several names with different values.
Status loadWeights(const PlanView &plan, unsigned rank, Stream &stream, std::byte *arena,
                   std::byte *hostArena, const WeightsFiles &files, const ReadProgress &read = {});

/// Gathers the full weights group by group over the control lane; rank 0 writes them, each
/// parameter under its name and its aliases, and rank 0's buffers but transient ones. Called by all
/// ranks, between steps; `stream` copies out of the arena. A rank holds at most one gathered group
/// in memory of the host. What fails on rank 0's disk is returned there alone; a failed collective
/// everywhere.
Status saveWeights(const PlanView &plan, Communicator &communicator, Stream &stream,
                   const std::byte *arena, const std::byte *hostArena, const std::string &path);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_WEIGHTS_H
