//===- PlanMemo.h - Searches that have been made ----------------*- C++ -*-===//
//
// The passes of a pipeline search on the same problem again: fsdp-choose-recompute predicts the
// step that fsdp-optimize-schedule then schedules.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TRANSFORMS_PLANMEMO_H
#define FSDP_TRANSFORMS_PLANMEMO_H

#include "fsdp/Schedule/Optimize.h"

#include <deque>

namespace fsdp {

/// Remembers the outcomes of the latest searches. A search is deterministic, so a remembered
/// outcome is that of another search.
class PlanMemo {
public:
  /// schedule::optimize(), or its outcome for an equal problem and equal options.
  std::optional<schedule::Outcome> optimize(const schedule::Problem &problem,
                                            const schedule::OptimizeOptions &options);

private:
  static constexpr size_t kMostSearches = 64; // a problem of 8B has 200 KB
  struct Search {
    schedule::Problem problem;
    schedule::OptimizeOptions options;
    std::optional<schedule::Outcome> outcome;
  };
  std::deque<Search> searches; // the latest is the last
};

} // namespace fsdp

#endif // FSDP_TRANSFORMS_PLANMEMO_H
