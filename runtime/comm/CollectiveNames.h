//===- CollectiveNames.h - Text about collectives for messages -*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_COLLECTIVENAMES_H
#define FSDP_RUNTIME_COMM_COLLECTIVENAMES_H

#include "comm/SharedRegion.h"

#include <string>

namespace fsdp::rt {

/// The descriptor of a reduction, without the address of its input.
CollectiveDescriptor describeReduction(CollectiveKind kind, size_t count, fsdp_dtype dtype,
                                       ReduceOp op);
/// The descriptor of an all-gather, a broadcast or a barrier.
CollectiveDescriptor describeTransfer(CollectiveKind kind, size_t bytes, unsigned root = 0);

/// "all_gather of 128 bytes", "reduce_scatter of 64 f32 (average)".
std::string describeCollective(const CollectiveDescriptor &descriptor);

/// "rank 1", "ranks 1, 2 and 5", "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 3 more".
std::string listRanks(const std::vector<unsigned> &ranks);

/// "; rank 0 has waited 10.002 s, the deadline is 10 s"
std::string describeWait(unsigned rank, std::chrono::nanoseconds waited,
                         std::chrono::nanoseconds deadline);

/// An error if `root` is not below `size`.
Status checkRoot(unsigned root, unsigned size);

/// The error of a rank whose peer has different lanes.
Status otherLanes(unsigned rank, unsigned peer);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_COLLECTIVENAMES_H
