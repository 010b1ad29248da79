//===- ComputeTimes.h - Computation between positions -----------*- C++ -*-===//
//
// Private to lib/Schedule.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_COMPUTETIMES_H
#define FSDP_LIB_SCHEDULE_COMPUTETIMES_H

#include "fsdp/Schedule/Problem.h"

namespace fsdp::schedule {

/// How long computation takes from one position to another on a device that does nothing else; 0 if
/// that is not behind it.
class ComputeTimes {
public:
  explicit ComputeTimes(const Problem &problem) : reachedNs{0} {
    for (const Operation &operation : problem.operations)
      reachedNs.push_back(reachedNs.back() + operation.durationNs);
  }
  double operator()(uint32_t from, uint32_t to) const {
    return from < to ? reachedNs[to] - reachedNs[from] : 0;
  }

private:
  std::vector<double> reachedNs; // by position, if computation never waits
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_COMPUTETIMES_H
