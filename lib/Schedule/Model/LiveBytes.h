//===- LiveBytes.h - Live bytes of a plan, with its chunks -------*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_LIVEBYTES_H
#define FSDP_LIB_SCHEDULE_LIVEBYTES_H

#include "fsdp/Schedule/Plan.h"

namespace fsdp::schedule {

/// Whether a use may or must read the copy of the group's previous use, `previous`; -1: there is
/// none.
inline KeepRule keepRuleOf(const Problem &problem, uint32_t use, int32_t previous) {
  return previous < 0 ? KeepRule::Never : problem.groupOfUse(use).keep;
}
/// By use: whether the problem demands that it is kept.
std::vector<uint8_t> keepByRule(const Problem &problem);
/// Whether a use may be gathered from the chunk of this number; `previous` as above. A chunk on the
/// host must be stored in time.
inline bool mayChunk(const Problem &problem, uint32_t use, int32_t previous, uint8_t number) {
  const Group &group = problem.groupOfUse(use);
  return previous >= 0 && number <= group.chunks.size() && group.keep != KeepRule::Always &&
         problem.releasedAt(uint32_t(previous), number) <= problem.uses[use].first;
}

/// The operations of a plan with this Plan::chunked. Durations include the time to make chunks, and
/// bytes include chunks. O(n).
std::vector<Operation> addChunks(const Problem &problem, std::span<const uint8_t> chunked);
/// The problem with these operations.
Problem withChunks(const Problem &problem, std::span<const uint8_t> chunked);

/// Moves each wait for a reduction towards the launch of the next reduction or its own update,
/// whichever comes first, as far as the plan's peak stays the same. A collective begins when the
/// last rank reaches it; with a later wait, the other ranks go on computing in the meantime. The
/// simulation does not show this gain, since all its ranks are equally fast. O(n).
void putOffWaits(const Problem &problem, Plan &plan);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_LIVEBYTES_H
