//===- FluidChoices.h - What is kept and merged, in a linear program -*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_FLUIDCHOICES_H
#define FSDP_LIB_SCHEDULE_FLUIDCHOICES_H

#include "CollectiveWindows.h"
#include "LinearProgram.h"
#include "Segments.h"

namespace fsdp::schedule {

/// Columns in [0, 1] for choices, and their running sums, so that rows stay short. Bytes are in
/// units of byteUnit.
struct FluidChoices {
  double byteUnit = 1;

  // By gather window. Of a bucket's gathers, all but the first are merged.
  std::vector<Column> kept, mergedGathers;
  // Likewise: gathered from chunks; and of these, the first of each bucket.
  std::vector<Column> chunked, begunChunks;
  // By reduction window. Of a bucket's reductions, all but the last are merged.
  std::vector<Column> mergedReductions;
  /// Windows of reductions, the earliest deadline first.
  std::vector<uint32_t> byDeadline;

  // Entry j: over the first j windows; of reductions, as they get ready or by deadline. Each counts
  // by its share of what the dearest mesh's would cost, a gather of chunks by that of its own.
  std::vector<Expression> gatherBytes, gatherLatencies; // what is gathered, what begins a bucket
  double mostGatherBytes = 0;                           // nothing kept
  std::vector<double> readyBytes, deadlineBytes;
  std::vector<Expression> readyLatencies, deadlineLatencies; // what ends a bucket
  /// By segment: bytes of copies that stay although nothing uses them, and of chunks; the time of
  /// the copies that make chunks in it; none: no use may be chunked.
  std::vector<Expression> keptBytes, copyTimes;
};

FluidChoices addChoices(const CollectiveWindows &windows, const std::vector<Segment> &segments,
                        bool mergeGathers, bool mergeReductions, double byteUnit, double timeUnitNs,
                        LinearProgram &program);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_FLUIDCHOICES_H
