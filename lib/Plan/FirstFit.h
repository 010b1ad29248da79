//===- FirstFit.h - Items in the lowest hole ---------------------*- C++ -*-===//
//
// Each item takes the lowest hole that is free during its whole life. It looks at every buffer
// placed before it near its life, so it is quadratic where lives are long; steps are counted.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_PLAN_FIRSTFIT_H
#define FSDP_LIB_PLAN_FIRSTFIT_H

#include "Skyline.h"

#include <utility>

namespace fsdp::plan {

class FirstFit {
public:
  /// Places items above `floor`. An item looks only at the blocks of `blockPositions` positions
  /// that it is live in.
  FirstFit(const ArenaProblem &problem, const Skyline &floor, int64_t blockPositions,
           int64_t &budget)
      : problem(problem), floor(floor), blockPositions(blockPositions), budget(budget),
        blocks((problem.numPositions + blockPositions - 1) / blockPositions) {}

  /// Places the items in this order. False if the budget is used up.
  bool run(std::span<const size_t> order, std::vector<int64_t> &bases);

private:
  struct Placed {
    int64_t begin, end;  // bytes
    int64_t first, last; // positions
  };
  using Block = std::vector<Placed>; // by begin

  std::span<Block> blocksOf(const Part &part) {
    int64_t first = part.first / blockPositions, last = part.last / blockPositions;
    return std::span(blocks).subspan(first, last - first + 1);
  }
  int64_t place(const Part &part, int64_t base);
  int64_t placeBundle(std::span<const Part> parts, int64_t base);

  const ArenaProblem &problem;
  const Skyline &floor;
  int64_t blockPositions;
  int64_t &budget;
  std::vector<Block> blocks;
  Block scratch;
  std::vector<std::pair<int64_t, int64_t>> forbidden;
};

} // namespace fsdp::plan

#endif // FSDP_LIB_PLAN_FIRSTFIT_H
