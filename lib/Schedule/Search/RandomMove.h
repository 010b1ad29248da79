//===- RandomMove.h - A step of the local search ----------------*- C++ -*-===//
//
// Private to lib/Schedule. Changes decisions at one place or, since layers are alike, at every
// first to fourth of a stretch.
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
  /// `next` is what changes; `launches`, by use, says where its plan launches gathers, and may be
  /// empty.
  RandomMove(const SearchSpace &space, std::span<const uint32_t> launches, Draws &draws,
             Decisions &next)
      : space(space), launches(launches), draws(draws), next(next) {}

  /// False if there was nothing to change.
  bool make();

private:
  /// Some of `count` neighbours.
  struct Pattern {
    size_t begin, end, stride;
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
  /// Buckets of one size in a stretch, and their gates.
  bool rebuildGathers();
  bool rebuildReductions(uint32_t from, uint32_t to); // that get ready there

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
