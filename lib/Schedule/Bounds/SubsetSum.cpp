//===- SubsetSum.cpp - How much of a capacity whole buffers can fill ------===//
//
// Models have few different sizes, so the search branches over the number of buffers of each size,
// the largest size first. Many different sizes fill nearly any capacity; then the capacity itself
// is a good upper bound.
//
//===----------------------------------------------------------------------===//

#include "SubsetSum.h"

#include <algorithm>
#include <vector>

using namespace fsdp::schedule;

namespace {

class Search {
public:
  Search(const SizeCounts &sizes, int64_t capacity) : capacity(capacity) {
    for (auto it = sizes.rbegin(); it != sizes.rend(); ++it)
      if (it->first > 0 && it->second > 0)
        kinds.push_back({it->first, it->second, 0});
    int64_t rest = 0;
    for (auto it = kinds.rbegin(); it != kinds.rend(); ++it)
      it->restBytes = rest += it->sizeBytes * it->count;
  }

  int64_t run() {
    branch(0, 0);
    return stepsLeft > 0 ? best : capacity;
  }

private:
  struct Kind {
    int64_t sizeBytes, count;
    int64_t restBytes; // of all buffers of this size and of smaller ones
  };

  void branch(size_t kind, int64_t filled) {
    best = std::max(best, filled);
    if (kind == kinds.size() || best == capacity || filled + kinds[kind].restBytes <= best)
      return;
    int64_t size = kinds[kind].sizeBytes;
    int64_t most = std::min(kinds[kind].count, (capacity - filled) / size);
    for (int64_t count = most; count >= 0 && --stepsLeft > 0; --count)
      branch(kind + 1, filled + count * size);
  }

  std::vector<Kind> kinds;
  int64_t capacity, best = 0;
  int stepsLeft = 2000;
};

} // namespace

int64_t fsdp::schedule::largestSubsetSum(const SizeCounts &sizes, int64_t capacity) {
  if (capacity <= 0)
    return 0;
  return Search(sizes, capacity).run();
}
