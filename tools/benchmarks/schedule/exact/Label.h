//===- Label.h - A partial plan -----------------------------------*- C++ -*-===//
//
// Private to the exact search: the state of a plan before a position.
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
  uint32_t waits = 0; // number of waits for earlier reductions, in the order of their lane
  struct Reduce {
    Set members;
    bool waits; // waits for it at once
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
  double laneNs[2] = {0, 0}; // time at which each lane is free, at least now
  Set present = 0;           // uses that have not begun, with a copy or one in flight
  /// Uses in `present` whose copy is that of the previous use. Whether the copy was kept is decided
  /// later: if its memory is needed before the use, the plan is one that did not keep it.
  Set optional = 0;
  Set ready = 0;                             // ready reductions that are not launched
  std::vector<InFlight> gathers, reductions; // in flight, in the order of their lane
  int64_t heldBytes = 0;                     // held by copies and reductions
  // At the previous position: free bytes beside its operation and its launches of reductions, and
  // whether a gather was launched.
  int64_t roomBytes = 0;
  bool gathered = false;
  double boundNs = 0; // lower bound of all plans of this label
  int32_t node = -1;  // the label's node in the search tree

  double arrivalNs(uint32_t use) const; // arrival of a present copy, at least now
};

/// The labels of one position.
class LabelLayer {
public:
  /// Adds the label unless another one dominates it (same sets, no time later). Drops labels that
  /// the new one dominates.
  void add(Label &&label);
  /// Moves the labels out, in the order in which they were added.
  std::vector<Label> take();
  double leastBoundNs(double otherwise) const;

private:
  std::vector<Label> labels; // dropped labels have an infinite bound
  std::unordered_map<uint64_t, std::vector<uint32_t>> bySets; // never iterated
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_LABEL_H
