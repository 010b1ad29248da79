//===- RandomMove.h - A move of the local search ----------------*- C++ -*-===//
//
// A move changes one element of the decisions. Since layers are alike, it
// may instead change a stretch of elements: all of them, or every second, third or fourth.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_RANDOMMOVE_H
#define FSDP_LIB_SCHEDULE_RANDOMMOVE_H

#include "SearchSpace.h"
#include "Simulate/Draws.h"
#include "fsdp/Schedule/ListSchedule.h"

namespace fsdp::schedule {

class RandomMove {
public:
  /// The move changes `next`. `launches` has, by use, the launches of gathers in the plan of `next`
  /// before the move, and may be empty.
  RandomMove(const SearchSpace &space, std::span<const uint32_t> launches, Draws &draws,
             Decisions &next)
      : space(space), launches(launches), draws(draws), next(next) {}

  /// False if the move changed nothing.
  bool make();

private:
  /// A selection of elements: every `stride`-th in [begin, end).
  struct Pattern {
    size_t begin, end, stride;
    /// Calls `element` for each. Whether a call returned that it changed the element.
    template <typename Element> bool change(Element element) const {
      bool isChanged = false;
      for (size_t i = begin; i < end; i += stride)
        isChanged |= element(i);
      return isChanged;
    }
  };
  Pattern choosePattern(size_t count);

  template <typename Bucket> bool moveBuckets(std::vector<Bucket> &buckets, double mergeShare);
  bool moveKeeps();
  bool moveChunks();
  bool moveTransports();
  bool moveGates();
  bool moveLaunches();
  bool moveReductionGates();
  bool moveLanes();
  /// Replaces the buckets in a stretch by buckets of one size, and sets their gates.
  bool rebuildGathers();
  bool rebuildReductions(uint32_t from, uint32_t to); // reductions that get ready in this range

  void gatherAgain(uint32_t use);
  void keep(uint32_t use);
  bool fits(uint32_t use) const;
  void gatherWhole(uint32_t use);
  bool gatherFromChunks(uint32_t use);

  const SearchSpace &space;
  const std::span<const uint32_t> launches;
  Draws &draws;
  Decisions &next;
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_RANDOMMOVE_H
