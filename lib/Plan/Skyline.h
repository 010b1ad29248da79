//===- Skyline.h - Items stacked on a skyline -------------------*- C++ -*-===//
//
// Each item lies on top of all items placed before it that are live at the same time: a range
// maximum over positions, O(n log n). With the longest lives first this is tight for activations
// saved for the backward, whose live ranges nest like a stack.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_PLAN_SKYLINE_H
#define FSDP_LIB_PLAN_SKYLINE_H

#include "ArenaProblem.h"

#include <algorithm>

namespace fsdp::plan {

/// The top of the placed items at each position, as a segment tree.
class Skyline {
public:
  explicit Skyline(int64_t numPositions) {
    while (width < numPositions)
      width *= 2;
    highest.resize(2 * width);
    floor.resize(2 * width);
  }

  int64_t heightOver(int64_t first, int64_t last) const {
    return query(1, 0, width - 1, first, last);
  }
  /// Raises positions that are below `height` to `height`.
  void raise(int64_t first, int64_t last, int64_t height) {
    update(1, 0, width - 1, first, last, height);
  }

private:
  int64_t query(int64_t node, int64_t low, int64_t high, int64_t first, int64_t last) const {
    if (first <= low && high <= last)
      return highest[node];
    int64_t middle = (low + high) / 2, height = floor[node];
    if (first <= middle)
      height = std::max(height, query(2 * node, low, middle, first, last));
    if (last > middle)
      height = std::max(height, query(2 * node + 1, middle + 1, high, first, last));
    return height;
  }
  void update(int64_t node, int64_t low, int64_t high, int64_t first, int64_t last,
              int64_t height) {
    highest[node] = std::max(highest[node], height);
    if (first <= low && high <= last) {
      floor[node] = std::max(floor[node], height);
      return;
    }
    int64_t middle = (low + high) / 2;
    if (first <= middle)
      update(2 * node, low, middle, first, last, height);
    if (last > middle)
      update(2 * node + 1, middle + 1, high, first, last, height);
  }

  int64_t width = 1;
  std::vector<int64_t> highest; // maximum over the positions below the node
  std::vector<int64_t> floor;   // a height that every position below the node has at least
};

/// The lowest base of an item whose parts are all above the skyline.
int64_t getBaseAbove(const Skyline &skyline, std::span<const Part> parts);

/// Stacks the items in this order.
Skyline stackItems(const ArenaProblem &problem, std::span<const size_t> order,
                   std::vector<int64_t> &bases);

} // namespace fsdp::plan

#endif // FSDP_LIB_PLAN_SKYLINE_H
