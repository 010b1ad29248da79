//===- BeamOutline.h - What is decided before a beam search ----*- C++ -*-===//
//
// Private to the beam search: what is kept, and the reductions, of a plan; when each gather may be
// launched beside them; what computation and lanes have to do from each position on.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_BEAMOUTLINE_H
#define FSDP_LIB_SCHEDULE_BEAMOUTLINE_H

#include "SearchSpace.h"
#include "fsdp/Schedule/Plan.h"

namespace fsdp::schedule {

struct BeamOutline {
  /// From a position on.
  struct Rest {
    double computeNs = 0;
    /// How long computation stands still for reductions, each of which is alone, and computation
    /// slow.
    double stallNs = 0;
    /// The most, over positions, of what lanes do in all until then and what comes behind.
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
  /// Position until which these buckets are launched, by launch, without a choice.
  uint32_t begin = 0;
  std::vector<Bucket> given;
  uint32_t end = 0; // position where the search ends
};

/// With the plan's reductions, launched as soon as they are ready if there is room, and its buckets
/// of gathers until groups can be gathered again. With late waits, reductions are waited for at
/// their updates. None if the reductions do not fit beside what is kept.
std::optional<BeamOutline> makeOutline(const SearchSpace &space, const Plan &plan,
                                       const std::vector<uint8_t> &kept, bool lateWaits);

/// The part before `begin`, without its given buckets; none if there is more in it than gathers for
/// uses in it.
std::optional<BeamOutline> makeBeginning(const Problem &problem, const BeamOutline &outline);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_BEAMOUTLINE_H
