//===- FluidLaunches.cpp - What is launched, has begun, has ended ----------===//

#include "FluidRows.h"

#include <algorithm>

using namespace fsdp::schedule;

/// Rows about chains of merged gathers stand for these numbers of them.
static constexpr uint32_t kChainLengths[] = {1, 2, 3, 4, 6, 8, 12, 16};

/// Gathers without room that are looked at, by position.
static constexpr uint32_t kMostBlocked = 3;

/// The end of the gathers of one size from `begin` on that are all for first uses, or all for later
/// ones that may be kept.
static uint32_t findEndOfRun(const Problem &problem, const CollectiveWindows &windows,
                             uint32_t begin) {
  const std::vector<GatherWindow> &gathers = windows.gathers;
  auto isOfRun = [&](const GatherWindow &gather) {
    return gather.sizeBytes == gathers[begin].sizeBytes &&
           (gather.keptFrom > 0) == (gathers[begin].keptFrom > 0) &&
           (gather.keptFrom == 0 ||
            problem.groups[problem.uses[gather.use].group].keep == KeepRule::Free);
  };
  uint32_t end = begin;
  while (end < gathers.size() && isOfRun(gathers[end]))
    ++end;
  return end;
}

/// In some best plan gathers of one run (above) are launched in order of use. Let a be used before
/// b, and launched after it. If b was launched when a's copy of the use before was gone, they can
/// change places. Else a can keep that copy, which takes less room than b's did, and b takes a's
/// place; that lanes then rest for a while harms nothing.
///
/// So gather j is not launched by an operation if its copy does not fit there beside those of the
/// gathers before it in the run that are used later than the operation: they are kept or were
/// launched before. Nor have been launched those behind it in the run, nor members of j's bucket.
/// Suppose j is merged, and each between k and j is merged or kept: k, if it is not kept, is a
/// member.
void FluidRows::addUnlaunched() {
  if (!problem.memoryCapBytes)
    return;
  const std::vector<GatherWindow> &gathers = windows.gathers;
  for (const FluidSegment &segment : segments) {
    const uint32_t begin = segment.dueGathers, launchable = segment.launchableGathers;
    if (begin >= launchable)
      continue;
    const uint32_t end = findEndOfRun(problem, windows, begin);
    int64_t heldBytes = 0; // with `blocked`
    uint32_t blocked = begin;
    for (; blocked < end; ++blocked) {
      if (gathers[blocked].keptFrom < segment.segment.end)
        heldBytes += gathers[blocked].sizeBytes;
      if (heldBytes > segment.segment.lastSlackBytes)
        break;
    }
    const uint32_t behind = std::min(end, launchable);
    for (uint32_t j = blocked; j < std::min(behind, blocked + kMostBlocked); ++j) {
      const Column merged = choices.mergedGathers[j];
      if (!merged)
        break;
      auto launched = [&](const std::vector<Expression> &sums) {
        return sums[launchable] - (sums[behind] - sums[j]);
      };
      // A bucket's latency is counted where its first member is, ahead of j.
      if (costs.gatherLatency > 0)
        program.requireAtLeast(launched(choices.gatherLatencies) - Expression(merged),
                               segment.after.gatherLatencies);
      Expression allowed = launched(choices.gatherBytes);
      Expression apart = 1.0 - Expression(merged); // 0 if k's bucket, unless it is kept, is j's
      const double sizeBytes = double(gathers[j].sizeBytes) / choices.byteUnit;
      for (uint32_t length = 1; length <= j - begin; ++length) {
        const uint32_t k = j - length;
        const Column before = choices.mergedGathers[k];
        allowed -= sizeBytes * (1.0 - Expression(choices.kept[k]) - apart);
        const bool isLast = k == begin || !before || length == *std::rbegin(kChainLengths);
        if (isLast || isOneOf(kChainLengths, length))
          program.requireAtLeast(allowed, segment.after.gatheredBytes);
        if (isLast)
          break;
        apart += 1.0 - (before + Expression(choices.kept[k]));
      }
    }
  }
}

/// Of the buckets that have begun on a lane, all but the last one have ended. Each of them that is
/// not counted among those that are due has a member, not due either, of at least the least size.
void FluidRows::addBegun() {
  std::vector<double> leastGathered, leastReduced; // of those from an index on, the last one first
  auto pushLeast = [&](std::vector<double> &least, int64_t bytes) {
    double size = double(bytes) / choices.byteUnit;
    least.push_back(least.empty() ? size : std::min(least.back(), size));
  };
  for (auto it = windows.gathers.rbegin(); it != windows.gathers.rend(); ++it)
    pushLeast(leastGathered, it->sizeBytes);
  for (auto it = choices.byDeadline.rbegin(); it != choices.byDeadline.rend(); ++it)
    pushLeast(leastReduced, windows.reductions[*it].inputBytes);
  auto require = [&](const Expression &bytes, const Expression &latencies,
                     const std::vector<double> &least, uint32_t due) {
    if (due < least.size())
      program.requireAtLeast(bytes, least[least.size() - 1 - due] * (latencies - 1.0));
  };
  for (const FluidSegment &segment : segments) {
    const Moment &after = segment.after;
    const uint32_t dueGathers = segment.dueGathers, dueReductions = segment.dueReductions;
    if (after.gatherLatencies)
      require(after.gatheredBytes - choices.gatherBytes[dueGathers],
              after.gatherLatencies - choices.gatherLatencies[dueGathers], leastGathered,
              dueGathers);
    if (after.reduceLatencies)
      require(after.reducedBytes - Expression(choices.deadlineBytes[dueReductions]),
              after.reduceLatencies - choices.deadlineLatencies[dueReductions], leastReduced,
              dueReductions);
  }
}

/// Reductions of one size whose updates come in the order in which they get ready can change
/// places: in some best plan they are launched in this order, so that those of a bucket are
/// neighbours. Let this hold for the last one that is due and all that can be in its bucket, which
/// are ready by its deadline. Suppose that it and those behind it up to k are merged: k + 1 is in
/// the bucket, and has ended as well. If the supposition is wrong the row asks for no more than
/// what is due anyway.
void FluidRows::addEndedBuckets() {
  const std::vector<ReductionWindow> &reductions = windows.reductions;
  auto areAlike = [](const ReductionWindow &a, const ReductionWindow &b) {
    return a.inputBytes == b.inputBytes && a.outputBytes == b.outputBytes && a.update <= b.update;
  };
  for (const FluidSegment &segment : segments) {
    if (!segment.reductionsBecomeDue)
      continue;
    const auto byDeadline = choices.byDeadline.begin();
    const uint32_t last = *std::max_element(byDeadline, byDeadline + segment.dueReductions);
    uint32_t end = last + 1;
    while (end < reductions.size() && areAlike(reductions[end - 1], reductions[end]))
      ++end;
    if (end < reductions.size() && reductions[end].ready <= reductions[last].deadline)
      continue;
    Expression ended = choices.deadlineBytes[segment.dueReductions], apart;
    for (uint32_t length = 1, k = last; k + 1 < end; ++length, ++k) {
      const Column merged = choices.mergedReductions[k];
      if (!merged || length > *std::rbegin(kChainLengths))
        break;
      ended += double(reductions[k].inputBytes) / choices.byteUnit * (merged - apart);
      apart += 1.0 - Expression(merged);
      if (isOneOf(kChainLengths, length))
        program.requireAtLeast(segment.reduced.reducedBytes, ended);
      // A bucket's latency is counted where its last member is.
      if (length == 1 && costs.reduceLatency > 0)
        program.requireAtLeast(segment.reduced.reduceLatencies,
                               choices.deadlineLatencies[segment.dueReductions] +
                                   Expression(merged));
    }
  }
}
