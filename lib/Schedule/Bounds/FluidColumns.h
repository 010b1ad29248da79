//===- FluidColumns.h - Segments and columns of the fluid bound ----*- C++ -*-===//
//
// Events here are the begins and ends of windows and of uses. Between two events, operations differ
// only in duration and memory. A bound that treats such a run of operations as one operation holds
// for every plan and is cheaper. The operation of the run with the least slack limits prefetching,
// so the run is cut after this operation.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_FLUIDCOLUMNS_H
#define FSDP_LIB_SCHEDULE_FLUIDCOLUMNS_H

#include "CollectiveWindows.h"
#include "LaneShares.h"
#include "LinearProgram.h"

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

/// Columns in [0, 1] for choices, and columns for their running sums, which keep rows short. Bytes
/// are in units of byteUnit.
struct FluidChoices {
  double byteUnit = 1;

  // By gather window. All gathers of a bucket but the first are merged.
  std::vector<Column> kept, mergedGathers;
  // By gather window: gathered from chunks; gathered from chunks and first in its bucket.
  std::vector<Column> chunked, begunChunks;
  // By reduction window. All reductions of a bucket but the last are merged.
  std::vector<Column> mergedReductions;
  /// Windows of reductions, the earliest deadline first.
  std::vector<uint32_t> byDeadline;

  // Entry j is the sum over the first j windows. Reductions are ordered by readiness or by
  // deadline. Each collective is weighted by its cost share (CollectiveWindows.h); a gather from
  // chunks by the least cost share.
  std::vector<Expression> gatherBytes, gatherLatencies; // latencies: of a bucket's first gather
  double mostGatherBytes = 0;                           // if nothing is kept
  /// Sums like those of `gatherBytes`, but of whole copies, and only of gathers from all ranks.
  std::vector<Expression> wholeBytes;
  double mostChunkShare = 0; // largest cost share of a gather from chunks; 0: there are none
  std::vector<double> readyBytes, deadlineBytes;
  std::vector<Expression> readyLatencies, deadlineLatencies; // of a bucket's last reduction
  /// By segment: the bytes of chunks, and of copies kept between two uses; the time to make chunks
  /// in the segment (empty: no use may be gathered from chunks).
  std::vector<Expression> keptBytes, copyTimes;
};

FluidChoices addChoices(const CollectiveWindows &windows, const std::vector<Segment> &segments,
                        bool mergeGathers, bool mergeReductions, double byteUnit, double timeUnitNs,
                        LinearProgram &program);

/// The program's columns for one moment. At the start of the step all of them are 0.
struct Moment {
  Column time;
  Column gatheredBytes, gatherLatencies; // done so far by the lane of gathers
  Column reducedBytes, reduceLatencies;  // done so far by the lane of reductions
};

/// A segment, its moments, and the windows that are open in it.
struct FluidSegment {
  Segment segment;
  Moment before; // end of the operation before the segment
  /// No gather is launched before `launch`. The due reductions have ended at `reduced`. Both are
  /// one moment of their own if gathers wait for reductions, else `before` and `start`.
  Moment launch, reduced;
  Moment start;            // start of its first operation; equals `before` if no wait is possible
  Moment after;            // end of its last operation
  uint32_t dueGathers = 0; // gathers [0, dueGathers) have ended at `start`
  uint32_t launchableGathers = 0; // later gathers cannot be launched by `after`
  uint32_t launchedGathers = 0;   // later gathers cannot be launched before `launch`
  uint32_t readyReductions = 0;   // reductions [0, readyReductions) can be launched
  uint32_t dueReductions = 0;     // the first so many by deadline have ended at `start`
  bool gathersBecomeDue = false, reductionsBecomeDue = false, reductionsGetReady = false;
  bool replicasBecomeDue = false; // at `start`, an update waits for an all-reduce over replicas
};

/// Latencies and times per byte of collectives, in the program's units.
struct LaneCosts {
  double gatherLatency = 0, gatherPerByte = 0;
  double reduceLatency = 0, reducePerByte = 0;
  /// The weighted work of the lanes of gathers and reductions between two moments.
  Expression workOf(const LaneShares &shares, const Moment &from, const Moment &to) const;
};

/// Columns for all moments. Times are at most `horizon`.
std::vector<FluidSegment> addMoments(const CollectiveWindows &windows,
                                     const std::vector<Segment> &segments,
                                     const FluidChoices &choices, const LaneCosts &costs,
                                     double horizon, LinearProgram &program);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_FLUIDCOLUMNS_H
