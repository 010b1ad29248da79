//===- FindOverlap.cpp - Check that live buffers are apart ----------------===//

#include "fsdp/Plan/ArenaPlanner.h"
#include "fsdp/Plan/OccupiedBytes.h"

#include <algorithm>
#include <numeric>
#include <utility>

using namespace fsdp::plan;

Overlap fsdp::plan::findOverlap(std::span<const BufferRange> buffers,
                                std::span<const int64_t> offsets) {
  std::vector<int64_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](int64_t i) { return std::pair(buffers[i].first, i); });
  OccupiedBytes arena;
  for (int64_t i : order) {
    if (buffers[i].sizeBytes == 0)
      continue;
    arena.advance(buffers[i].first);
    if (auto other = arena.enter({offsets[i], buffers[i].sizeBytes, i}, buffers[i].last))
      return {std::min(i, other->owner), std::max(i, other->owner)};
  }
  return {};
}
