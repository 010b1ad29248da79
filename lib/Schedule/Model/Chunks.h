//===- Chunks.h - What chunks add to the operations -------------*- C++ -*-===//
//
// The rules of Problem.h: the last operation of the use that leaves a chunk copies it, and it is
// live from there to the first operation of the use that is gathered from it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_CHUNKS_H
#define FSDP_LIB_SCHEDULE_CHUNKS_H

#include "fsdp/Schedule/Problem.h"

namespace fsdp::schedule {

/// Whether a use that has one of its group before it may be gathered from chunks.
inline bool mayChunk(const Problem &problem, uint32_t use, int32_t previous) {
  const Group &group = problem.groups[problem.uses[use].group];
  return previous >= 0 && group.chunk && group.keep != KeepRule::Always;
}

/// The operations of a plan whose uses in `chunked`, by use, are gathered from chunks: with the
/// copies in their durations, and the chunks among their bytes. O(n).
std::vector<Operation> addChunks(const Problem &problem, const std::vector<int32_t> &previousUses,
                                 std::span<const uint8_t> chunked);

/// The problem with these operations; itself if none is chunked.
Problem withChunks(const Problem &problem, std::span<const uint8_t> chunked);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_CHUNKS_H
