//===- SubsetSum.cpp - How much of a capacity whole buffers can fill ------===//
//
// Models have few different sizes, so the search branches over the number of buffers of each size,
// the largest size first. Many different sizes fill nearly any capacity; then the capacity itself
// is a good upper bound.
//
//===----------------------------------------------------------------------===//

#include "SubsetSum.h"

#include <algorithm>

using namespace fsdp::schedule;

int64_t fsdp::schedule::largestSubsetSum(const SizeCounts &sizes, int64_t capacity) {
  if (capacity <= 0)
    return 0;
  int64_t best = 0, stepsLeft = 2000, allBytes = 0;
  for (auto [bytes, count] : sizes)
    allBytes += bytes * count;
  // `restBytes`: of all buffers of the size `it` and of smaller ones.
  auto branch = [&](auto &self, auto it, int64_t restBytes, int64_t filled) -> void {
    best = std::max(best, filled);
    if (best == capacity || filled + restBytes <= best)
      return;
    auto [bytes, count] = *it;
    int64_t most = std::min<int64_t>(count, (capacity - filled) / bytes);
    for (int64_t taken = most; taken >= 0 && --stepsLeft > 0; --taken)
      self(self, std::next(it), restBytes - bytes * count, filled + taken * bytes);
  };
  branch(branch, sizes.rbegin(), allBytes, 0);
  return stepsLeft > 0 ? best : capacity;
}
