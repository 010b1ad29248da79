//===- SubsetSum.h - How much of a capacity whole buffers can fill -*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_SUBSETSUM_H
#define FSDP_LIB_SCHEDULE_SUBSETSUM_H

#include <cstdint>
#include <map>

namespace fsdp::schedule {

/// How many buffers there are of each size.
using SizeCounts = std::map<int64_t, uint32_t>;

/// The largest sum of a subset of the buffers that is at most `capacity`, or an upper bound on this
/// sum if the search would take long; 0 if the capacity is negative.
int64_t largestSubsetSum(const SizeCounts &sizes, int64_t capacity);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_SUBSETSUM_H
