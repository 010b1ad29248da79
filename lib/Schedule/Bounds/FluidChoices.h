//===- FluidChoices.h - Columns for keeping and merging ------------*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_FLUIDCHOICES_H
#define FSDP_LIB_SCHEDULE_FLUIDCHOICES_H

#include "CollectiveWindows.h"
#include "LinearProgram.h"
#include "Segments.h"

namespace fsdp::schedule {

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

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_FLUIDCHOICES_H
