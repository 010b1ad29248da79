//===- LabelExpansion.cpp - The choices at a position ---------------------===//

#include "LabelExpansion.h"

#include <algorithm>

using namespace fsdp::schedule;

int64_t LabelExpansion::sizeOf(Set uses) const {
  int64_t bytes = 0;
  forEachMember(uses, [&](uint32_t use) { bytes += problem.uses[use].sizeBytes; });
  return bytes;
}

int64_t LabelExpansion::inputsOf(Set reductions) const {
  int64_t bytes = 0;
  forEachMember(reductions, [&](uint32_t r) { bytes += problem.reductions[r].inputBytes; });
  return bytes;
}

int64_t LabelExpansion::outputsOf(Set reductions) const {
  int64_t bytes = 0;
  forEachMember(reductions, [&](uint32_t r) { bytes += problem.reductions[r].outputBytes; });
  return bytes;
}

/// True if the lane's first launch at this position could have been one operation earlier without
/// any delay: because computation is not slowed by the lane, or because the lane was busy all the
/// time anyway.
bool LabelExpansion::wasTimingFree(uint32_t lane) const {
  return position > 0 && (problem.computeContention == 1 || origin->laneNs[lane] > origin->nowNs);
}

void LabelExpansion::expand(const Label &label, uint32_t at) {
  origin = &label;
  position = at;
  isStopped = false;
  Draft draft;
  draft.label = label;
  arrive(draft);
  chooseWaits(draft);
}

/// Applies the events of this position without a choice, such as waits that take no time.
void LabelExpansion::arrive(Draft &draft) const {
  Label &label = draft.label;
  label.heldBytes -= item().freedBytes;
  forEachMember(item().released, [&](uint32_t index) {
    int32_t next = problem.uses[index].next;
    if (next >= 0 && problem.uses[next].isServed) {
      label.present |= setOf(next);
    } else if (next >= 0 && problem.uses[next].isKeepable) {
      label.present |= setOf(next);
      label.optional |= setOf(next);
    } else {
      label.heldBytes -= problem.uses[index].sizeBytes;
    }
  });
  label.ready |= item().gettingReady;
  label.heldBytes += inputsOf(item().gettingReady);
  while (!label.reductions.empty() && label.reductions.front().endNs <= label.nowNs) {
    waitForFirst(draft);
    ++draft.step.waits;
  }
}

void LabelExpansion::waitForFirst(Draft &draft) const {
  Label &label = draft.label;
  InFlight bucket = label.reductions.front();
  label.reductions.erase(label.reductions.begin());
  int64_t bytes = inputsOf(bucket.members);
  bool isNeeded = bucket.endNs <= label.nowNs || (bucket.members & item().due) != 0;
  draft.waitedBytes = isNeeded ? -1 : bytes;
  draft.peakBytesSinceWait = 0;
  label.nowNs = std::max(label.nowNs, bucket.endNs);
  label.heldBytes -= bytes;
}

void LabelExpansion::chooseWaits(const Draft &draft) {
  Set inFlight = 0;
  for (const InFlight &bucket : draft.label.reductions)
    inFlight |= bucket.members;
  if ((inFlight & item().due) == 0)
    chooseReductions(draft);
  if (inFlight == 0 || isStopped)
    return;
  Draft waited = draft;
  waitForFirst(waited);
  ++waited.step.waits;
  chooseWaits(waited);
}

bool LabelExpansion::isReductionLate(const Draft &draft, Set reductions) const {
  int64_t bytes = outputsOf(reductions);
  return draft.step.reductions.empty() && wasTimingFree(reductionLane()) &&
         (reductions & item().gettingReady) == 0 && !(problem.oneLane && origin->gathered) &&
         bytes <= origin->roomBytes;
}

/// Launches the reductions; false if they do not fit.
bool LabelExpansion::launch(Draft &draft, Set reductions) const {
  Label &label = draft.label;
  label.ready &= ~reductions;
  label.heldBytes += outputsOf(reductions);
  int64_t bytes = label.heldBytes + operation().carriedBytes;
  if (bytes - sizeOf(label.optional) > problem.capBytes)
    return false;
  draft.launchPeakBytes = std::max(draft.launchPeakBytes, bytes);
  draft.peakBytesSinceWait = std::max(draft.peakBytesSinceWait, bytes);
  double &laneNs = label.laneNs[reductionLane()];
  laneNs = std::max(laneNs, label.nowNs) + problem.reduceCost.durationNs(inputsOf(reductions));
  label.reductions.push_back({reductions, laneNs});
  return true;
}

void LabelExpansion::chooseReductions(const Draft &draft) {
  if ((draft.label.ready & item().due) == 0)
    dropCopies(draft, draft.label.optional, 0, draft.launchPeakBytes - problem.capBytes,
               &LabelExpansion::chooseGathers);
  for (Set set = draft.label.ready; set != 0 && !isStopped; set = (set - 1) & draft.label.ready) {
    if (isReductionLate(draft, set))
      continue;
    Draft launched = draft;
    if (!launch(launched, set))
      continue;
    if ((set & item().due) == 0) {
      launched.step.reductions.push_back({set, false});
      chooseReductions(launched);
      launched.step.reductions.pop_back();
    }
    if (!draft.label.reductions.empty())
      continue; // waits are in the order of the lane
    waitForFirst(launched);
    launched.step.reductions.push_back({set, true});
    chooseReductions(launched);
  }
}

Set LabelExpansion::findGatherable(const Label &label) const {
  Set set = 0;
  for (uint32_t use = 0; use < problem.uses.size(); ++use)
    if (problem.uses[use].gate <= position && problem.uses[use].first >= position)
      set |= setOf(use);
  return set & ~problem.served & ~label.present;
}

/// True if a bucket that would be the first at this position could have been launched at the
/// previous one.
bool LabelExpansion::isGatherLate(const Draft &draft, Set bucket, int64_t bytes) const {
  if (!draft.step.gathers.empty() || !wasTimingFree(0) || bytes > origin->roomBytes ||
      draft.launchPeakBytes + bytes > problem.capBytes ||
      (problem.oneLane && !draft.step.reductions.empty()))
    return false;
  bool isGated = false;
  forEachMember(bucket, [&](uint32_t use) { isGated |= problem.uses[use].gate == position; });
  return !isGated;
}

/// True if a gather in `left` is used before an equally large one in `launched`.
bool LabelExpansion::isOvertaken(Set launched, Set left) const {
  bool result = false;
  forEachMember(left, [&](uint32_t early) {
    forEachMember(launched & ~(setOf(early) - 1), [&](uint32_t late) {
      result |= problem.uses[early].sizeBytes == problem.uses[late].sizeBytes;
    });
  });
  return result;
}

void LabelExpansion::chooseGathers(const Draft &draft) {
  if (isStopped)
    return;
  Set gatherable = findGatherable(draft.label);
  if ((gatherable & item().beginning) == 0 && !isOvertaken(draft.gathered, gatherable))
    settle(draft);
  Set behind = gatherable;
  if (draft.gathered != 0)
    behind &= ~(~Set(0) >> std::countl_zero(draft.gathered));
  if ((gatherable & item().beginning & ~behind) == 0)
    growBucket(draft, 0, behind, 0);
}

/// Launches each bucket that extends `bucket` by candidates, which are used after its members.
void LabelExpansion::growBucket(const Draft &draft, Set bucket, Set candidates, int64_t bytes) {
  const Label &label = draft.label;
  int64_t roomBytes =
      problem.capBytes - operation().liveBytes - label.heldBytes + sizeOf(label.optional);
  double beginNs = std::max(label.laneNs[0], label.nowNs);
  forEachMember(candidates, [&](uint32_t use) {
    Set grown = bucket | setOf(use);
    int64_t grownBytes = bytes + problem.uses[use].sizeBytes;
    double endNs = beginNs + problem.gatherCost.durationNs(grownBytes);
    uint32_t first = problem.uses[std::countr_zero(grown)].first;
    if (isStopped || grownBytes > roomBytes || startsTooLate(first, endNs))
      return;
    if (!isGatherLate(draft, grown, grownBytes))
      launchBucket(draft, grown, grownBytes, endNs);
    growBucket(draft, grown, candidates & ~(setOf(use) | (setOf(use) - 1)), grownBytes);
  });
}

void LabelExpansion::launchBucket(const Draft &draft, Set bucket, int64_t bytes, double endNs) {
  Draft launched = draft;
  launched.label.laneNs[0] = endNs;
  launched.label.gathers.push_back({bucket, endNs});
  launched.label.present |= bucket;
  launched.label.heldBytes += bytes;
  launched.gathered |= bucket;
  launched.step.gathers.push_back(bucket);
  chooseGathers(launched);
}

/// Drops copies until the operation fits.
void LabelExpansion::settle(const Draft &draft) {
  Draft settled = draft;
  Label &label = settled.label;
  label.optional &= ~item().beginning;
  int64_t deficitBytes = label.heldBytes + operation().liveBytes - problem.capBytes;
  dropCopies(settled, label.optional, 0, deficitBytes, &LabelExpansion::run);
}

/// Drops as few candidates as needed, in each possible way, beginning with the one that is used
/// last. If one is not dropped, equally large ones that are used before it are not dropped either.
void LabelExpansion::dropCopies(const Draft &draft, Set candidates, Set dropped,
                                int64_t deficitBytes, Then then) {
  if (deficitBytes <= 0) {
    Draft rest = draft;
    int64_t bytes = sizeOf(dropped);
    rest.label.present &= ~dropped;
    rest.label.optional &= ~dropped;
    rest.label.heldBytes -= bytes;
    rest.launchPeakBytes -= bytes;
    rest.peakBytesSinceWait -= bytes;
    (this->*then)(rest);
    return;
  }
  Set passed = 0;
  while (candidates != 0 && !isStopped) {
    auto use = uint32_t(63 - std::countl_zero(candidates));
    candidates &= ~setOf(use);
    int64_t bytes = problem.uses[use].sizeBytes;
    bool isUseful = bytes > 0;
    forEachMember(dropped, [&](uint32_t other) { // still needed in addition to this one
      isUseful &= deficitBytes - bytes + problem.uses[other].sizeBytes > 0;
    });
    forEachMember(passed,
                  [&](uint32_t other) { isUseful &= problem.uses[other].sizeBytes != bytes; });
    passed |= setOf(use);
    if (isUseful)
      dropCopies(draft, candidates, dropped | setOf(use), deficitBytes - bytes, then);
  }
}

bool LabelExpansion::isWaitUseless(const Draft &draft) const {
  if (draft.waitedBytes < 0)
    return false;
  int64_t peakBytes =
      std::max(draft.peakBytesSinceWait, draft.label.heldBytes + operation().liveBytes);
  return peakBytes + draft.waitedBytes <= problem.capBytes;
}

void LabelExpansion::run(const Draft &draft) {
  if (isWaitUseless(draft))
    return;
  Label label = draft.label;
  forEachMember(item().beginning,
                [&](uint32_t use) { label.nowNs = std::max(label.nowNs, label.arrivalNs(use)); });
  label.present &= ~item().beginning;
  double busyNs = std::max(label.laneNs[0], label.laneNs[1]) - label.nowNs;
  double durationNs = operation().durationNs;
  double slowNs = durationNs * problem.computeContention;
  if (slowNs <= busyNs)
    durationNs = slowNs;
  else if (busyNs > 0)
    durationNs += busyNs * (1 - 1 / problem.computeContention);
  label.nowNs += durationNs;
  leave(label, draft.gathered);
  isStopped = !visit(std::move(label), draft.step);
}

void LabelExpansion::leave(Label &label, Set gathered) const {
  for (double &laneNs : label.laneNs)
    laneNs = std::max(laneNs, label.nowNs);
  std::erase_if(label.gathers, [&](InFlight &bucket) {
    bucket.members &= label.present;
    return bucket.members == 0 || bucket.endNs <= label.nowNs;
  });
  label.gathered = gathered != 0;
  label.roomBytes = problem.capBytes - label.heldBytes - operation().liveBytes;
}
