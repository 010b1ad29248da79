//===- BeamOutline.h - What is decided before a beam search ----*- C++ -*-===//
//
// Private to the beam search: a plan's kept copies and its reductions, the positions at which each
// gather may be launched beside them, and the work left for computation and lanes by position.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_BEAMOUTLINE_H
#define FSDP_LIB_SCHEDULE_BEAMOUTLINE_H

#include "SearchSpace.h"
#include "fsdp/Schedule/Plan.h"

namespace fsdp::schedule {

struct BeamOutline {
  /// The work that is left from a position on.
  struct Rest {
    double computeNs = 0;
    /// How long computation waits for reductions if no gather runs beside them and computation is
    /// slowed down by them.
    double stallNs = 0;
    /// The largest sum, over later positions, of the lanes' work before and after that position.
    double afterGathersNs = 0, afterReductionsNs = 0;
  };
  struct Bucket {
    uint32_t launch = 0; // position
    uint32_t end = 0;    // gathers up to there
  };

  Plan plan;                       // without gathers
  std::vector<uint32_t> gathers;   // uses, in order
  std::vector<uint32_t> gates;     // by gather: first position for it and all before it
  std::vector<int64_t> bytes;      // of gathers before an index
  std::vector<double> gatherNs;    // likewise, without latencies
  std::vector<double> reductionNs; // by bucket
  std::vector<double> reducedNs;   // of buckets before an index
  std::vector<Rest> rests;         // by position
  /// Until this position the search has no choice: the buckets in `given` are launched, in order.
  uint32_t begin = 0;
  std::vector<Bucket> given;
  uint32_t end = 0; // position where the search ends
};

/// Takes the plan's reductions, each launched as soon as it is ready and fits, and its buckets of
/// gathers up to the first group that is gathered again. With late waits, each reduction is waited
/// for at its update. None if the reductions do not fit beside the kept copies.
std::optional<BeamOutline> makeOutline(const SearchSpace &space, const Plan &plan,
                                       const std::vector<uint8_t> &kept, bool lateWaits);

/// The outline of the part before `begin`, without given buckets. None if that part has anything
/// but gathers for its own uses.
std::optional<BeamOutline> makeBeginning(const Problem &problem, const BeamOutline &outline);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_BEAMOUTLINE_H
