//===- Skyline.cpp - Items stacked on a skyline ---------------------------===//

#include "Skyline.h"

#include <algorithm>

using namespace fsdp::plan;

int64_t fsdp::plan::getBaseAbove(const Skyline &skyline, std::span<const Part> parts) {
  int64_t base = 0;
  for (const Part &part : parts)
    base = std::max(base, skyline.heightOver(part.first, part.last) - part.begin);
  return base;
}

Skyline fsdp::plan::stackItems(const ArenaProblem &problem, std::span<const size_t> order,
                               std::vector<int64_t> &bases) {
  Skyline skyline(problem.numPositions);
  for (size_t index : order) {
    std::span<const Part> parts = problem.partsOf(problem.items[index]);
    int64_t base = bases[index] = getBaseAbove(skyline, parts);
    for (const Part &part : parts)
      skyline.raise(part.first, part.last, base + part.begin + part.size);
  }
  return skyline;
}
