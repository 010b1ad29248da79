//===- FluidChains.cpp - How many collectives can be merged ----------------===//

#include "FluidRows.h"

#include <algorithm>

using namespace fsdp::schedule;

/// Longer chains have no row: they would cost more time than they are worth.
static constexpr size_t kLongestChain = 32;

/// Gathers merged with an earlier one that are looked at.
static constexpr size_t kMostGated = 3;

/// The least slack of the operations [begin, end); more than any if there are none.
static int64_t leastSlack(const CollectiveWindows &windows, uint32_t begin, uint32_t end) {
  auto first = windows.slackBytes.begin();
  auto least = std::min_element(first + begin, first + std::max(begin, end));
  return least == first + std::max(begin, end) ? INT64_MAX : *least;
}

/// At least one of these is not merged.
void FluidRows::addBrokenChain(std::span<const Column> merged) {
  Expression sum;
  for (Column column : merged) {
    if (!column)
      return;
    sum += column;
  }
  program.requireAtLeast(double(merged.size()) - 1, sum);
}

/// Suppose the gathers behind i, up to j, are all merged. Their buckets have members up to i, so
/// that they were launched before the operation for which i waits: behind all their gates, and with
/// their copies beside the operations from there on.
void FluidRows::addGatherChains() {
  const std::vector<GatherWindow> &gathers = windows.gathers;
  std::vector<int64_t> slack; // from one use's begin to the next one's
  for (size_t i = 0; i + 1 < gathers.size(); ++i)
    slack.push_back(leastSlack(windows, gathers[i].first, gathers[i + 1].first));
  for (size_t i = 0; i + 1 < gathers.size(); ++i) {
    for (size_t j = i + 1; j < gathers.size() && j - i <= kLongestChain; ++j) {
      if (!choices.mergedGathers[j])
        break;
      bool fits = gathers[j].gate <= gathers[i].first;
      int64_t bytes = 0;
      for (size_t k = j; k > i && fits; --k) {
        bytes += gathers[k].sizeBytes;
        fits = bytes <= slack[k - 1];
      }
      if (fits)
        continue;
      addBrokenChain(std::span(choices.mergedGathers).subspan(i + 1, j - i));
      break;
    }
  }
}

/// Suppose the reductions from i on, all before j, are merged. Their buckets are launched when j is
/// ready, or later, but before any of their deadlines; until then they hold their inputs.
void FluidRows::addReductionChains() {
  const std::vector<ReductionWindow> &reductions = windows.reductions;
  std::vector<int64_t> slack; // from one readiness to the next
  for (size_t i = 0; i + 1 < reductions.size(); ++i)
    slack.push_back(leastSlack(windows, reductions[i].ready, reductions[i + 1].ready));
  for (size_t i = 0; i + 1 < reductions.size(); ++i) {
    int64_t bytes = 0;
    uint32_t deadline = UINT32_MAX;
    for (size_t j = i + 1; j < reductions.size() && j - i <= kLongestChain; ++j) {
      if (!choices.mergedReductions[j - 1])
        break;
      bytes += reductions[j - 1].excessBytes;
      deadline = std::min(deadline, reductions[j - 1].deadline);
      if (bytes <= slack[j - 1] && deadline >= reductions[j].ready)
        continue;
      addBrokenChain(std::span(choices.mergedReductions).subspan(i, j - i));
      break;
    }
  }
}

/// Gathers of one size, each for its group's first use, can change places: some best plan launches
/// them in order of use. Let those from i to j be of this kind, and all but i merged. If their
/// copies do not fit together beside an operation between the use before i's and i's own, the
/// bucket of j has no member before i: everything from i on would have been launched with it, or
/// before, and be there. So they are one bucket, which was launched behind that operation, and
/// computation waited for all of it.
void FluidRows::addBucketGates() {
  const std::vector<GatherWindow> &gathers = windows.gathers;
  for (size_t i = 0; i + 1 < gathers.size(); ++i) {
    const GatherWindow &gather = gathers[i];
    uint32_t first = gather.first, before = i == 0 ? 0 : gathers[i - 1].first;
    int64_t bytes = gather.sizeBytes;
    Expression all = 1.0; // 1 if all are merged, else at most 0
    for (size_t j = i + 1; j < gathers.size() && j - i <= kMostGated; ++j) {
      Column merged = choices.mergedGathers[j];
      if (!merged || gathers[j].sizeBytes != gather.sizeBytes || gathers[j].keptFrom > 0 ||
          gather.keptFrom > 0)
        break;
      bytes += gather.sizeBytes;
      all -= 1.0 - Expression(merged);
      uint32_t gate = first;
      while (gate > before && windows.slackBytes[gate - 1] >= bytes)
        --gate;
      if (gate > before)
        program.requireAtLeast(segmentAt(first).start.time -
                                   Expression(segmentBefore(gate).launch.time),
                               problem.gatherCost.durationNs(bytes) / timeUnitNs * all);
    }
  }
}

void FluidRows::addChains() {
  addGatherChains();
  addBucketGates();
  addReductionChains();
}
