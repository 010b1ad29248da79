//===- Segments.h - Runs of operations without events --------------*- C++ -*-===//
//
// Between two events (a use begins, a copy or a gradient appears, a collective has to be there or
// cannot be launched earlier) operations differ in duration and memory only. A bound that looks at
// such a run as a whole holds for every plan, and is cheaper. The run's tightest operation is the
// one that limits prefetching, so a run ends with it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_SEGMENTS_H
#define FSDP_LIB_SCHEDULE_SEGMENTS_H

#include "CollectiveWindows.h"

namespace fsdp::schedule {

struct Segment {
  uint32_t begin = 0, end = 0; // operations [begin, end)
  double durationNs = 0;
  /// Of CollectiveWindows::slackBytes.
  int64_t leastSlackBytes = 0, lastSlackBytes = 0;
  bool isSingle() const { return end == begin + 1; }
};

/// In order, without gaps; begins wherever a window of a gather or a reduction begins or ends, and
/// where replicas are waited for.
std::vector<Segment> findSegments(const Problem &problem, const CollectiveWindows &windows,
                                  bool coarsen);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_SEGMENTS_H
