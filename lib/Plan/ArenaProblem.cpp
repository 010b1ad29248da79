//===- ArenaProblem.cpp - Items to be placed in an arena ------------------===//

#include "ArenaProblem.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <unordered_map>

using namespace fsdp::plan;

ArenaProblem fsdp::plan::makeArenaProblem(std::span<const BufferRange> buffers) {
  ArenaProblem problem;
  std::unordered_map<int64_t, size_t> itemOfBundle;
  std::vector<std::vector<Part>> parts;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const BufferRange &buffer = buffers[i];
    assert(buffer.first >= 0 && buffer.first <= buffer.last && buffer.sizeBytes >= 0);
    assert(buffer.bundleOffset % kArenaAlignmentBytes == 0);
    problem.numPositions = std::max(problem.numPositions, buffer.last + 1);
    if (buffer.sizeBytes == 0 && buffer.bundle < 0)
      continue;
    size_t item = parts.size();
    if (buffer.bundle >= 0)
      item = itemOfBundle.try_emplace(buffer.bundle, item).first->second;
    if (item == parts.size())
      parts.emplace_back();
    parts[item].push_back({buffer.bundleOffset, alignToArena(buffer.sizeBytes), buffer.first,
                           buffer.last, static_cast<int64_t>(i)});
  }
  for (std::vector<Part> &itemParts : parts) {
    std::ranges::sort(itemParts, {}, &Part::begin);
    Item item{problem.parts.size(), itemParts.size(), 0, problem.numPositions, 0, 0};
    for (const Part &part : itemParts) {
      item.size = std::max(item.size, part.begin + part.size);
      item.first = std::min(item.first, part.first);
      item.last = std::max(item.last, part.last);
      item.area += part.size * (part.last - part.first + 1);
      problem.parts.push_back(part);
    }
    problem.items.push_back(item);
  }
  problem.liveBytes.resize(problem.numPositions + 1);
  for (const Part &part : problem.parts) {
    problem.liveBytes[part.first] += part.size;
    problem.liveBytes[part.last + 1] -= part.size;
  }
  problem.liveBytes.pop_back();
  std::partial_sum(problem.liveBytes.begin(), problem.liveBytes.end(), problem.liveBytes.begin());
  for (int64_t live : problem.liveBytes)
    problem.peakLiveBytes = std::max(problem.peakLiveBytes, live);
  return problem;
}
