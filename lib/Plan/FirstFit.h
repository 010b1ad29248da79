//===- FirstFit.h - Items in the lowest hole ---------------------*- C++ -*-===//
//
// Each item takes the lowest hole that is free during its whole life. The search visits every
// placed buffer that is near in time, so it is quadratic for long lives; its steps are counted.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_PLAN_FIRSTFIT_H
#define FSDP_LIB_PLAN_FIRSTFIT_H

#include "Skyline.h"

#include <utility>

namespace fsdp::plan {

class FirstFit {
public:
  /// Places items above `floor`. Positions are divided into blocks of `blockPositions`; an item
  /// only visits the blocks during which it is live.
  FirstFit(const ArenaProblem &problem, const Skyline &floor, int64_t blockPositions,
           int64_t &budget)
      : problem(problem), floor(floor), blockPositions(blockPositions), budget(budget),
        blocks((problem.numPositions + blockPositions - 1) / blockPositions) {}

  /// Places the items in this order. False if the budget runs out.
  bool run(std::span<const size_t> order, std::vector<int64_t> &bases);
  /// Takes the bytes from `base` for the item.
  void insert(size_t item, int64_t base);

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
