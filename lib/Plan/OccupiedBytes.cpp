//===- OccupiedBytes.cpp - Which bytes of an arena are in use -------------===//

#include "fsdp/Plan/OccupiedBytes.h"

#include <iterator>

using namespace fsdp::plan;

std::optional<OccupiedBytes::Block> OccupiedBytes::enter(Block block, int64_t last) {
  auto next = live.lower_bound(block.begin);
  if (next != live.end() && next->first < block.begin + block.bytes)
    return next->second;
  if (next != live.begin()) {
    const Block &previous = std::prev(next)->second;
    if (previous.begin + previous.bytes > block.begin)
      return previous;
  }
  beginByLast.emplace(last, block.begin);
  live.emplace_hint(next, block.begin, block);
  return std::nullopt;
}

void OccupiedBytes::advance(int64_t position) {
  auto stop = beginByLast.lower_bound(position);
  for (auto it = beginByLast.begin(); it != stop; ++it)
    live.erase(it->second);
  beginByLast.erase(beginByLast.begin(), stop);
}
