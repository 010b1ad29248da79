//===- PutOffWaits.cpp - Slack for reductions that take longer ------------===//

#include "PutOffWaits.h"

#include "Model/LiveBytes.h"

#include <algorithm>

using namespace fsdp::schedule;

void fsdp::schedule::putOffWaits(const Problem &problem, Plan &plan) {
  std::vector<int64_t> heldBytes(problem.operations.size());
  int64_t peakBytes = 0;
  auto reach = [&](int64_t bytes) { peakBytes = std::max(peakBytes, bytes); };
  walkLiveBytes(
      problem, plan, [&](int64_t bytes, uint32_t) { reach(bytes); },
      [&](int64_t bytes, uint32_t operation) {
        heldBytes[operation] = bytes;
        reach(bytes);
      });
  // A later wait adds bytes only to operations before the next launch of a reduction. So each
  // operation is affected by at most one wait.
  for (size_t i = 0; i < plan.reductions.size(); ++i) {
    ReductionBucket &bucket = plan.reductions[i];
    uint32_t end = i + 1 < plan.reductions.size() ? plan.reductions[i + 1].launch : UINT32_MAX;
    int64_t inputBytes = 0;
    for (uint32_t index : bucket.reductions) {
      end = std::min(end, problem.reductions[index].update);
      inputBytes += problem.reductions[index].inputBytes;
    }
    while (bucket.wait < end && heldBytes[bucket.wait] + inputBytes <= peakBytes)
      ++bucket.wait;
  }
}
