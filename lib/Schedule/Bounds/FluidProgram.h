//===- FluidProgram.h - The linear program of the fluid bound ------*- C++ -*-===//
//
// Events here are the begins and ends of windows and of uses. Between two events, operations differ
// only in duration and memory. A bound that treats such a run of operations as one operation holds
// for every plan and is cheaper. The operation of the run with the least slack limits prefetching,
// so the run is cut after this operation.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_FLUIDPROGRAM_H
#define FSDP_LIB_SCHEDULE_FLUIDPROGRAM_H

#include "CollectiveWindows.h"
#include "LaneShares.h"
#include "LinearProgram.h"
#include "fsdp/Schedule/LowerBound.h"

#include <map>

namespace fsdp::schedule {

/// A chunk with its columns: gathered from it; gathered from it and first in its bucket.
struct FluidChunk : ChunkWindow {
  Column chosen = {}, begun = {};
};

/// A gather with its columns, which are in [0, 1]. All gathers of a bucket but the first are
/// merged.
struct FluidGather : GatherWindow {
  double size = 0; // gathered bytes, in the program's unit
  Column kept = {}, merged = {};
  std::vector<FluidChunk> choices = {}; // by chunk

  bool mayBeLess() const { return kept || !choices.empty(); } // than a gather from all ranks
  Expression sumOf(Column FluidChunk::*column) const {
    Expression sum;
    for (const FluidChunk &choice : choices)
      sum += choice.*column;
    return sum;
  }
};

/// All reductions of a bucket but the last are merged.
struct FluidReduction : ReductionWindow {
  double size = 0; // input bytes weighted by their cost share, in the program's unit
  Column merged = {};
};

/// Entry j is the work of the first j collectives in some order. Each collective is weighted by its
/// cost share (CollectiveWindows.h); a gather from chunks by the least cost share. The latency of a
/// bucket counts at its first gather or its last reduction.
struct WorkSums {
  std::vector<Expression> bytes{Expression()}, latencies{Expression()};
  double mostBytes = 0; // if nothing is kept
};

/// What a lane has done so far.
struct LaneProgress {
  Column bytes, latencies;
  bool operator==(const LaneProgress &) const = default;
};

/// The program's columns for one moment. At the start of the step all of them are 0.
struct Moment {
  Column time;
  LaneProgress gathers, reductions;
};

/// Numbers of collectives of one lane, in the order of their deadlines or of their gates.
struct LaneWindows {
  uint32_t due = 0;        // the first so many by deadline have ended at `start`
  uint32_t launchable = 0; // the others cannot be launched by `after`
  bool becomeDue = false, becomeLaunchable = false; // in this segment
};

/// A run of operations, its moments, and the windows that are open in it.
struct FluidSegment {
  uint32_t begin = 0, end = 0; // operations [begin, end)
  double durationNs = 0;
  /// The least slack in the segment, and the slack of its last operation (CollectiveWindows).
  int64_t leastSlackBytes = INT64_MAX, lastSlackBytes = 0;

  Moment before; // end of the operation before the segment
  /// No gather is launched before `launch`. The due reductions have ended at `reduced`. Both are
  /// one moment of their own if gathers wait for reductions, else `before` and `start`.
  Moment launch, reduced;
  Moment start; // start of its first operation; equals `before` if no wait is possible
  Moment after; // end of its last operation

  LaneWindows gathers, reductions;
  bool replicasBecomeDue = false; // at `start`, an update waits for an all-reduce over replicas
  Column keptBytes;               // of chunks, and of copies kept between two uses
  Expression copyTime;            // to make chunks

  bool isSingle() const { return end == begin + 1; }
};

/// How many buffers there are of each size.
using SizeCounts = std::map<int64_t, uint32_t>;

/// The largest sum of a subset of the buffers that is at most `capacity`, or an upper bound on this
/// sum if the search would take long; 0 if the capacity is negative.
int64_t largestSubsetSum(const SizeCounts &sizes, int64_t capacity);

/// The program's columns and rows. Units keep its coefficients near 1.
struct FluidProgram {
  FluidProgram(const Problem &problem, const FluidOptions &options);

  const Problem &problem;
  const CollectiveWindows windows;
  const std::vector<double> reachedNs; // by position: Problem::reachedNs
  const double totalNs; // of all work one after another; some optimal plan takes no longer
  const double byteUnit, timeUnitNs;
  /// The latency and the time per byte of a lane's collectives, in the program's units.
  struct LaneCost {
    double latency, perByte;
  };
  const LaneCost gatherCost, reduceCost;
  /// Indices: whether gathers may run, whether reductions may run.
  const std::vector<LaneShares> laneShares[2][2];

  LinearProgram program;
  std::vector<FluidGather> gathers;       // in order of use
  std::vector<FluidReduction> reductions; // by readiness
  std::vector<uint32_t> byDeadline;       // reductions
  std::vector<FluidSegment> segments;     // in order, without gaps
  WorkSums gatherWork, readyWork, deadlineWork;
  /// Sums like those of `gatherWork`, but of whole copies, and only of gathers from all ranks.
  std::vector<Expression> wholeBytes{Expression()};
  double mostChunkShare = 0; // largest cost share of a gather from chunks; 0: there are none

private:
  LaneCost costOf(const CollectiveCost &cost, const FluidOptions &options) const;

  // FluidColumns.cpp. Running sums keep rows short.
  Column addSum(const Expression &sum, double most);
  void addSegments(bool coarsen);
  void addChoices();
  void addGatherSums();
  WorkSums sumReductions(const std::vector<uint32_t> &order);
  void addReductionSums();
  void addKeptBytes();
  void countWindows();
  Moment addMoment(const Moment &last, bool gathering, bool reducing);
  void addMoments();

  // Each of the other functions adds one family of rows. The comment at its definition says why
  // every plan satisfies these rows.
  // FluidWork.cpp: the most and the least work that lanes can have done by a moment.
  void addWork(LaneWindows FluidSegment::*lane, LaneProgress Moment::*progress,
               Moment FluidSegment::*ended, const WorkSums &due, const WorkSums &launchable);
  void addMergedGathers();
  void addMergedReductions();
  void addSingleCollectives();
  void addLaneRows(const Moment &from, const Moment &to, bool isComputing,
                   const Expression &computeTime);
  void addLanes(); // time

  void addMemory();   // FluidMemory.cpp: bytes
  void addReplicas(); // FluidReplicas.cpp: all-reduces over replicas

  // FluidTurns.cpp: disjunctions of bytes and time.
  struct Turns;
  Turns findTurns(const ReductionWindow &reduction, const GatherWindow &gather,
                  const CollectiveCost &cost) const;
  void addTurns();

  const FluidSegment &segmentAt(uint32_t position) const; // the segment that begins there
  /// The weighted work of the lanes of gathers and reductions between two moments.
  Expression workOf(const LaneShares &shares, const Moment &from, const Moment &to) const;
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_FLUIDPROGRAM_H
