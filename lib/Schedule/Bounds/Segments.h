//===- Segments.h - Runs of operations without events --------------*- C++ -*-===//
//
// Events here are the begins and ends of windows and of uses. Between two events, operations differ
// only in duration and memory. A bound that treats such a run of operations as one operation holds
// for every plan and is cheaper. The operation of the run with the least slack limits prefetching,
// so the run is cut after this operation.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_SEGMENTS_H
#define FSDP_LIB_SCHEDULE_SEGMENTS_H

#include "CollectiveWindows.h"

namespace fsdp::schedule {

struct Segment {
  uint32_t begin = 0, end = 0; // operations [begin, end)
  double durationNs = 0;
  /// The least slack in the segment, and the slack of its last operation (CollectiveWindows).
  int64_t leastSlackBytes = 0, lastSlackBytes = 0;
  bool isSingle() const { return end == begin + 1; }
};

/// In order, without gaps. A segment begins at each position at which a window of a gather or a
/// reduction begins or ends, and at each update that waits for replicas.
std::vector<Segment> findSegments(const Problem &problem, const CollectiveWindows &windows,
                                  bool coarsen);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_SEGMENTS_H
