//===- BruteForcePeak.h - Memory, moment by moment --------------*- C++ -*-===//

#ifndef FSDP_TEST_SCHEDULE_BRUTEFORCEPEAK_H
#define FSDP_TEST_SCHEDULE_BRUTEFORCEPEAK_H

#include "fsdp/Schedule/Plan.h"

namespace fsdp::schedule {

/// The most bytes at any moment, each summed anew over everything that is live then by the rules of
/// Problem.h. Quadratic.
int64_t findPeakByBruteForce(const Problem &problem, const Plan &plan);

} // namespace fsdp::schedule

#endif // FSDP_TEST_SCHEDULE_BRUTEFORCEPEAK_H
