//===- FindOverlap.cpp - Check that live buffers are apart ----------------===//

#include "fsdp/Plan/ArenaPlanner.h"

#include <algorithm>
#include <map>

using namespace fsdp::plan;

Overlap fsdp::plan::findOverlap(std::span<const BufferRange> buffers,
                                std::span<const int64_t> offsets) {
  std::vector<size_t> starts, ends;
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].sizeBytes > 0)
      starts.push_back(i);
  ends = starts;
  std::ranges::stable_sort(starts, {}, [&](size_t i) { return buffers[i].first; });
  std::ranges::stable_sort(ends, {}, [&](size_t i) { return buffers[i].last; });
  std::map<int64_t, size_t> live; // by offset; disjoint by induction
  auto end = ends.begin();
  for (size_t index : starts) {
    for (; end != ends.end() && buffers[*end].last < buffers[index].first; ++end)
      live.erase(offsets[*end]);
    auto next = live.lower_bound(offsets[index]);
    size_t other = buffers.size();
    if (next != live.end() && next->first < offsets[index] + buffers[index].sizeBytes)
      other = next->second;
    else if (next != live.begin()) {
      auto previous = std::prev(next);
      if (previous->first + buffers[previous->second].sizeBytes > offsets[index])
        other = previous->second;
    }
    if (other != buffers.size())
      return {static_cast<int64_t>(std::min(index, other)),
              static_cast<int64_t>(std::max(index, other))};
    live.emplace(offsets[index], index);
  }
  return {};
}
