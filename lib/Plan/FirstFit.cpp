//===- FirstFit.cpp - Items in the lowest hole ----------------------------===//

#include "FirstFit.h"

#include <algorithm>

using namespace fsdp::plan;

bool FirstFit::run(std::span<const size_t> order, std::vector<int64_t> &bases) {
  for (size_t index : order) {
    std::span<const Part> parts = problem.partsOf(problem.items[index]);
    int64_t base = getBaseAbove(floor, parts);
    base = parts.size() == 1 ? place(parts.front(), base) : placeBundle(parts, base);
    if (budget < 0)
      return false;
    bases[index] = base;
    insert(index, base);
  }
  return true;
}

void FirstFit::insert(size_t item, int64_t base) {
  for (const Part &part : problem.partsOf(problem.items[item])) {
    Placed placed{base + part.begin, base + part.begin + part.size, part.first, part.last};
    for (Block &block : blocksOf(part))
      block.insert(std::ranges::upper_bound(block, placed.begin, {}, &Placed::begin), placed);
  }
}

int64_t FirstFit::place(const Part &part, int64_t base) {
  std::span<Block> near = blocksOf(part);
  const Block *candidates = &near.front();
  if (near.size() > 1) {
    scratch.clear();
    for (const Block &block : near)
      scratch.insert(scratch.end(), block.begin(), block.end());
    std::ranges::sort(scratch, {}, &Placed::begin);
    candidates = &scratch;
    budget -= static_cast<int64_t>(4 * scratch.size());
  }
  int64_t seen = 0;
  for (const Placed &other : *candidates) {
    ++seen;
    if (other.first > part.last || other.last < part.first)
      continue;
    if (other.begin - base >= part.size)
      break;
    base = std::max(base, other.end);
  }
  budget -= seen;
  return base;
}

int64_t FirstFit::placeBundle(std::span<const Part> parts, int64_t base) {
  // Collects intervals (low, high): bases between them would overlap a placed buffer.
  forbidden.clear();
  for (const Part &part : parts)
    for (const Block &block : blocksOf(part)) {
      budget -= static_cast<int64_t>(block.size());
      for (const Placed &other : block)
        if (other.first <= part.last && part.first <= other.last)
          forbidden.emplace_back(other.begin - part.begin - part.size, other.end - part.begin);
    }
  std::ranges::sort(forbidden);
  for (auto [low, high] : forbidden) {
    if (low >= base)
      break;
    base = std::max(base, high);
  }
  return base;
}
