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
/// them in order of use. Let a run of neighbours be of this kind, i and j among them, and all
/// behind i up to j be merged. When the bucket of j was launched, so had been all before j: at an
/// operation beside which those of the run do not fit that are used between it and j, or by j, it
/// had not been. If that operation is not before the use ahead of the run, the bucket has no member
/// ahead of the run either, so that i is one: computation waited for all of it from there.
void FluidRows::addBucketGates() {
  const std::vector<GatherWindow> &gathers = windows.gathers;
  size_t run = 0; // where it begins
  for (size_t i = 0; i + 1 < gathers.size(); ++i) {
    if (gathers[i].sizeBytes != gathers[run].sizeBytes || gathers[i].keptFrom > 0)
      run = i;
    int64_t sizeBytes = gathers[i].sizeBytes, bytes = sizeBytes;
    Expression all = 1.0; // 1 if all are merged, else at most 0
    for (size_t j = i + 1; j < gathers.size() && j - i <= kMostGated; ++j) {
      Column merged = choices.mergedGathers[j];
      if (!merged || gathers[j].sizeBytes != sizeBytes || gathers[j].keptFrom > 0 ||
          gathers[i].keptFrom > 0)
        break;
      bytes += sizeBytes;
      all -= 1.0 - Expression(merged);
      double duration = problem.gatherCost.durationNs(bytes) / timeUnitNs;
      uint32_t earliest = run == 0 ? 0 : gathers[run - 1].first, gate = gathers[i].first;
      size_t next = i; // the first that is used behind the operation
      int64_t heldBytes = bytes;
      double computeTime = 0;
      for (; gate > earliest && computeTime < duration; --gate) {
        for (; next > run && gathers[next - 1].first >= gate; --next)
          heldBytes += sizeBytes;
        if (windows.slackBytes[gate - 1] < heldBytes)
          break;
        computeTime += problem.operations[gate - 1].durationNs / timeUnitNs;
      }
      if (gate > earliest && computeTime < duration)
        program.requireAtLeast(segmentAt(gathers[i].first).start.time -
                                   Expression(segmentBefore(gate).launch.time),
                               computeTime + (duration - computeTime) * all);
    }
  }
}

void FluidRows::addChains() {
  addGatherChains();
  addBucketGates();
  addReductionChains();
}
