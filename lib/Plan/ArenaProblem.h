//===- ArenaProblem.h - Items to be placed in an arena ----------*- C++ -*-===//
//
// The buffers of ArenaPlanner.h as items, with bundles joined, for all heuristics.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_PLAN_ARENAPROBLEM_H
#define FSDP_LIB_PLAN_ARENAPROBLEM_H

#include "fsdp/Plan/ArenaPlanner.h"

namespace fsdp::plan {

/// A part of an item: one buffer, at its offset in the item.
struct Part {
  int64_t begin, size; // bytes, relative to the item; aligned
  int64_t first, last; // positions
  int64_t buffer;      // index in the input
};

/// A unit of placement: one buffer, or a bundle of buffers.
struct Item {
  size_t firstPart, numParts;
  int64_t size;        // bytes, from the first part's beginning to the last one's end
  int64_t first, last; // positions, over all parts
  int64_t area;        // sum over positions of live bytes
};

struct ArenaProblem {
  std::vector<Part> parts; // by item
  std::vector<Item> items;
  int64_t numPositions = 0;
  std::vector<int64_t> liveBytes; // by position
  int64_t peakLiveBytes = 0;

  std::span<const Part> partsOf(const Item &item) const {
    return std::span(parts).subspan(item.firstPart, item.numParts);
  }
};

ArenaProblem makeArenaProblem(std::span<const BufferRange> buffers);

} // namespace fsdp::plan

#endif // FSDP_LIB_PLAN_ARENAPROBLEM_H
