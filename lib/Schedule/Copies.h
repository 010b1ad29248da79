//===- Copies.h - How long gathered copies live -----------------*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_COPIES_H
#define FSDP_LIB_SCHEDULE_COPIES_H

#include "fsdp/Schedule/Problem.h"

namespace fsdp::schedule {

/// By use: the last operation that reads the copy which the use reads, if the uses in `kept` read
/// the copy of the group's previous use.
std::vector<uint32_t> findCopyEnds(const Problem &problem, const std::vector<int32_t> &nextUses,
                                   const std::vector<uint8_t> &kept);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_COPIES_H
