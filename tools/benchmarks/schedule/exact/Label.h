//===- Label.h - A partial plan -----------------------------------*- C++ -*-===//
//
// Private to the exact search: what a plan has done before a position.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_LABEL_H
#define FSDP_LIB_SCHEDULE_LABEL_H

#include "LabelProblem.h"

#include <bit>
#include <unordered_map>

namespace fsdp::schedule {

template <typename Function> void forEachMember(Set set, Function function) {
  for (; set != 0; set &= set - 1)
    function(uint32_t(std::countr_zero(set)));
}
inline Set setOf(uint32_t member) { return Set(1) << member; }

/// The launches and waits of a plan at one position.
struct LabelStep {
  uint32_t waits = 0; // for reductions launched before, in the order of their lane
  struct Reduce {
    Set members;
    bool waits; // for it at once
  };
  std::vector<Reduce> reductions;
  std::vector<Set> gathers;
};

struct InFlight {
  Set members = 0; // uses or reductions
  double endNs = 0;
};

struct Label {
  double nowNs = 0;
  double laneNs[2] = {0, 0}; // when each lane gets free, at least now
  Set present = 0;           // uses that have not begun, with a copy or one in flight
  /// Uses in `present` whose copy is that of the previous use. Whether it was kept is still open:
  /// if its memory is needed before the use, the plan is one that did not keep it.
  Set optional = 0;
  Set ready = 0;                             // reductions that are not launched
  std::vector<InFlight> gathers, reductions; // that have not ended, in the order of their lane
  int64_t heldBytes = 0;                     // by copies and reductions
  // Of the previous position: bytes that were free beside its operation and its launches of
  // reductions, and whether a gather was launched there.
  int64_t roomBytes = 0;
  bool gathered = false;
  double boundNs = 0; // no plan of this label takes less
  int32_t node = -1;  // how it came about

  double arrivalNs(uint32_t use) const; // of a present copy, at least now
};

/// The labels of one position.
class LabelLayer {
public:
  /// Adds the label unless another one dominates it (same sets, no time later). Drops labels that
  /// it dominates.
  void add(Label &&label);
  /// Moves the labels out, in the order in which they were added.
  std::vector<Label> take();
  double leastBoundNs(double otherwise) const;

private:
  std::vector<Label> labels; // those that were dropped have an infinite bound
  std::unordered_map<uint64_t, std::vector<uint32_t>> bySets; // never iterated
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_LABEL_H
