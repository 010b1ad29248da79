//===- LabelProblem.h - A problem as positions and sets -----------*- C++ -*-===//
//
// Private to the exact search: a problem, indexed by position. At most 64 uses and 64 reductions,
// so that a set of them fits one word.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_LABELPROBLEM_H
#define FSDP_LIB_SCHEDULE_LABELPROBLEM_H

#include "fsdp/Schedule/Problem.h"

namespace fsdp::schedule {

using Set = uint64_t;
inline constexpr size_t kMostMembers = 64;

struct LabelItem {
  Operation operation;
  Set beginning = 0;      // uses
  Set released = 0;       // uses whose last operation was before
  Set gettingReady = 0;   // reductions
  Set due = 0;            // reductions that must have ended
  int64_t freedBytes = 0; // of reduced shards whose update was before
};

struct LabelUse {
  int64_t sizeBytes = 0;
  uint32_t first = 0;
  uint32_t keptFrom = 0;   // position after the previous use
  uint32_t gate = 0;       // first position at which its gather may be launched
  uint32_t leastGate = 0;  // the least gate of it and of all later uses
  int32_t next = -1;       // use of the same group
  bool isKeepable = false; // its previous use's copy may stay
  bool isServed = false;   // the copy stays
};

struct LabelReduction {
  uint32_t ready = 0, deadline = 0;
  int64_t inputBytes = 0, outputBytes = 0;
};

struct LabelProblem {
  std::vector<LabelItem> items; // by operation
  std::vector<LabelUse> uses;
  std::vector<LabelReduction> reductions;
  Set served = 0;                  // uses for which the copy of the previous use stays
  std::vector<double> remainingNs; // computation from each position to the end
  CollectiveCost gatherCost, reduceCost;
  bool oneLane = false;
  double computeContention = 1;
  int64_t capBytes = 0;
};

/// None if the problem has too many uses or reductions, or two lanes that slow each other down:
/// then a collective that starts earlier could make the step end later.
std::optional<LabelProblem> makeLabelProblem(const Problem &problem);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_LABELPROBLEM_H
