//===- RandomMove.cpp - A move of the local search ------------------------===//

#include "Bucketing.h"
#include "LocalSearch.h"
#include "Model/LiveBytes.h"

#include <algorithm>
#include <utility>

using namespace fsdp::schedule;

void RandomMove::gatherAgain(uint32_t use) {
  next.kept[use] = 0;
  uint32_t first = space.firstOf(use);
  auto after = std::ranges::find_if(next.gathers, [&](const Decisions::Gathers &bucket) {
    return space.firstOf(bucket.uses.front()) >= first;
  });
  next.gathers.insert(after, {{use}, 0});
}

/// Gathers the use from all ranks if it is gathered.
void RandomMove::gatherWhole(uint32_t use) {
  if (next.chunked.empty())
    return;
  next.chunked[use] = 0;
  if (size_t(std::ranges::count(next.chunked, 0)) == next.chunked.size())
    next.chunked.clear();
}

/// A use that may be gathered from chunks is drawn; this draws which of them. One chunk needs no
/// draw.
uint8_t RandomMove::drawChunk() {
  return space.mostChunks > 1 ? uint8_t(1 + draws.below(space.mostChunks)) : uint8_t(1);
}

/// Gathers the use from the chunk of this number if there is one and it fits into memory.
bool RandomMove::gatherFromChunk(uint32_t use, uint8_t number) {
  if (!mayChunk(space.problem, use, space.previousUse[use], number))
    return false;
  const uint8_t before = chunkedOf(use);
  gatherWhole(use);
  const bool isFitting = fits(space.chunkOf(use, number));
  if (uint8_t chosen = isFitting ? number : before) {
    next.chunked.resize(space.problem.uses.size());
    next.chunked[use] = chosen;
  }
  return isFitting;
}

void RandomMove::keep(uint32_t use) {
  next.kept[use] = 1;
  gatherWhole(use);
  for (Decisions::Gathers &bucket : next.gathers)
    std::erase(bucket.uses, use);
  std::erase_if(next.gathers, [](const Decisions::Gathers &bucket) { return bucket.uses.empty(); });
}

RandomMove::Pattern RandomMove::choosePattern(size_t count) {
  constexpr double kSingle = .6;
  constexpr size_t kMaxStride = 4;
  size_t begin = draws.below(count);
  if (draws.fraction() < kSingle)
    return {begin, begin + 1, 1};
  size_t end = draws.fraction() < .5 ? count : begin + 1 + draws.below(count - begin);
  return {begin, end, 1 + draws.below(kMaxStride)};
}

static std::vector<uint32_t> &membersOf(Decisions::Gathers &bucket) { return bucket.uses; }
static std::vector<uint32_t> &membersOf(std::vector<uint32_t> &bucket) { return bucket; }

/// Merges a bucket with the next bucket, splits it, or moves the first member of the next bucket
/// into it.
template <typename Bucket>
bool RandomMove::moveBuckets(std::vector<Bucket> &buckets, double mergeShare) {
  if (buckets.size() < 2)
    return false;
  bool isMerge = draws.fraction() < mergeShare, changed = false;
  Pattern pattern = choosePattern(buckets.size() - 1);
  size_t stride = isMerge ? pattern.stride + 1 : pattern.stride;
  // From the last to the first bucket, so that indices stay valid.
  for (size_t i = pattern.begin + (pattern.end - 1 - pattern.begin) / stride * stride;;
       i -= stride) {
    auto at = buckets.begin() + ptrdiff_t(i);
    std::vector<uint32_t> &members = membersOf(*at), &others = membersOf(at[1]);
    if (isMerge) {
      members.insert(members.end(), others.begin(), others.end());
      buckets.erase(at + 1);
      changed = true;
    } else if (members.size() > 1) {
      size_t middle = 1 + draws.below(members.size() - 1);
      Bucket tail = *at;
      membersOf(tail).assign(members.begin() + ptrdiff_t(middle), members.end());
      members.resize(middle);
      buckets.insert(at + 1, std::move(tail));
      changed = true;
    } else if (others.size() > 1) {
      members.push_back(others.front());
      others.erase(others.begin());
      changed = true;
    }
    if (i < pattern.begin + stride)
      return changed;
  }
}

bool RandomMove::moveKeeps() {
  const std::vector<uint32_t> &candidates = space.mayKeep;
  if (candidates.empty())
    return false;
  uint32_t use = candidates[draws.below(candidates.size())];
  if (next.kept[use]) {
    gatherAgain(use);
    if (!space.mayChunk.empty() && draws.fraction() < .5)
      gatherFromChunk(use, drawChunk());
    constexpr int kReplacements = 4;
    if (draws.fraction() < .7)
      for (int i = 0; i < kReplacements; ++i) {
        uint32_t other = candidates[draws.below(candidates.size())];
        if (other != use && !next.kept[other] && fits(space.keptCopy(other)))
          keep(other);
      }
    return true;
  }
  constexpr int kEvictions = 2;
  for (int i = 0; i < kEvictions && !fits(space.keptCopy(use)); ++i) {
    std::vector<uint32_t> kept;
    std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(kept),
                 [&](uint32_t other) { return next.kept[other]; });
    if (kept.empty())
      return false;
    gatherAgain(kept[draws.below(kept.size())]);
  }
  if (!fits(space.keptCopy(use)))
    return false;
  keep(use);
  return true;
}

/// Gathers some uses from chunks of one number, as far as these fit, or from all ranks again.
bool RandomMove::moveChunks() {
  const std::vector<uint32_t> &candidates = space.mayChunk;
  const Pattern pattern = choosePattern(candidates.size());
  uint8_t wanted = drawChunk();
  if (wanted == chunkedOf(candidates[pattern.begin]))
    wanted = 0;
  return pattern.change([&](size_t i) {
    uint32_t use = candidates[i];
    if (next.kept[use] || chunkedOf(use) == wanted)
      return false;
    if (wanted > 0)
      return gatherFromChunk(use, wanted);
    gatherWhole(use);
    return true;
  });
}

/// Changes the transport of some buckets: all get the transport that the first of them lacks.
bool RandomMove::moveTransports() {
  if (next.gathers.empty())
    return false;
  const Pattern pattern = choosePattern(next.gathers.size());
  const bool byCopyEngine = !next.gathers[pattern.begin].byCopyEngine;
  return pattern.change([&](size_t i) {
    next.gathers[i].byCopyEngine = byCopyEngine;
    return true;
  });
}

/// Whether the gate was another one.
static bool change(uint32_t &gate, uint32_t value) { return std::exchange(gate, value) != value; }

/// Sets gates of gathers to some multiple of the bucket's duration before its first use.
bool RandomMove::moveGates() {
  if (next.gathers.empty())
    return false;
  constexpr double kMultiples[] = {0, .05, .25, .5, 1, 1.5, 2, 4}; // 0: no gate
  const double multiple = kMultiples[draws.below(std::size(kMultiples))];
  return choosePattern(next.gathers.size()).change([&](size_t i) {
    auto &[uses, gate, byCopyEngine] = next.gathers[i];
    if (multiple == 0)
      return change(gate, 0);
    const uint32_t first = space.firstOf(uses.front());
    const double durationNs = space.problem.ofGather(uses, next.chunked, byCopyEngine).totalNs();
    return change(gate,
                  std::min(first, space.positionAt(space.startNs[first] - multiple * durationNs)));
  });
}

/// Moves gates of gathers to positions shortly before or after their current launches.
bool RandomMove::moveLaunches() {
  if (next.gathers.empty() || launches.empty())
    return false;
  constexpr size_t kMostOperations = 8, kMostEvents = 4;
  bool isLater = draws.fraction() < .7, byOperation = draws.fraction() < .3;
  auto count = uint32_t(1 + draws.below(byOperation ? kMostOperations : kMostEvents));
  auto shift = [&](uint32_t launch) {
    uint32_t segment = space.segmentOf[launch];
    if (isLater)
      return byOperation ? launch + count : space.eventAfter(launch, count);
    if (byOperation)
      return launch - std::min(launch, count);
    return space.events[segment - std::min(segment, count)];
  };
  return choosePattern(next.gathers.size()).change([&](size_t i) {
    uint32_t use = next.gathers[i].uses.front();
    return change(next.gathers[i].gate, std::min(shift(launches[use]), space.firstOf(use)));
  });
}

/// Sets the gates of some reductions: some events after readiness, or after the first operation of
/// the next use, so that this use's gather goes first, or no gate.
bool RandomMove::moveReductionGates() {
  const std::vector<Reduction> &reductions = space.problem.reductions;
  const std::vector<Use> &uses = space.problem.uses;
  if (reductions.empty())
    return false;
  constexpr size_t kMostEvents = 3;
  const size_t numEvents = draws.below(kMostEvents + 1);
  const bool isBehindUse = draws.fraction() < .5;
  auto gateOf = [&](uint32_t ready) -> uint32_t {
    if (numEvents == 0)
      return 0;
    if (!isBehindUse)
      return space.eventAfter(ready, numEvents);
    auto use = std::ranges::lower_bound(uses, ready, {}, &Use::first);
    return use == uses.end() ? 0 : use->first + 1;
  };
  next.reductionGates.resize(reductions.size());
  return choosePattern(reductions.size()).change([&](size_t i) {
    return change(next.reductionGates[i], gateOf(reductions[i].ready));
  });
}

/// Switches between one lane and two if concurrent gathers and reductions slow each other down; on
/// one lane, switches which of them goes first.
bool RandomMove::moveLanes() {
  const Problem &problem = space.problem;
  const bool mayShare = !problem.oneLane && problem.contention.lanes > 1;
  const bool isShared = problem.oneLane || next.shareLane;
  if (mayShare && (!isShared || draws.fraction() < .5))
    next.shareLane = !next.shareLane;
  else if (isShared)
    next.gathersGoFirst = !next.gathersGoFirst;
  else
    return false;
  return true;
}

template <typename Bucket>
static void rebuild(std::vector<Bucket> &buckets, size_t begin, size_t end, size_t numMembers) {
  std::vector<uint32_t> all;
  for (size_t i = begin; i < end; ++i)
    all.insert(all.end(), membersOf(buckets[i]).begin(), membersOf(buckets[i]).end());
  std::ranges::sort(all);
  std::vector<Bucket> rebuilt;
  for (size_t i = 0; i < all.size(); i += numMembers) {
    auto first = all.begin() + ptrdiff_t(i);
    Bucket &part = rebuilt.emplace_back(buckets[begin]);
    membersOf(part).assign(first, std::min(first + ptrdiff_t(numMembers), all.end()));
  }
  buckets.erase(buckets.begin() + ptrdiff_t(begin), buckets.begin() + ptrdiff_t(end));
  buckets.insert(buckets.begin() + ptrdiff_t(begin), rebuilt.begin(), rebuilt.end());
}

bool RandomMove::rebuildGathers() {
  if (next.gathers.size() < 2)
    return false;
  size_t begin = draws.below(next.gathers.size());
  size_t end = draws.fraction() < .3 ? next.gathers.size()
                                     : begin + 1 + draws.below(next.gathers.size() - begin);
  size_t after = next.gathers.size() - end;
  constexpr size_t kMembers[] = {1, 1, 2, 2, 3, 4, 5, 6, 8, 12};
  uint32_t from = space.firstOf(next.gathers[begin].uses.front());
  uint32_t to = space.firstOf(next.gathers[end - 1].uses.back());
  rebuild(next.gathers, begin, end, kMembers[draws.below(std::size(kMembers))]);
  if (draws.fraction() < .4)
    rebuildReductions(from, to);
  end = next.gathers.size() - after;
  double choice = draws.fraction();
  if (choice < .5) {
    constexpr double kMultiples[] = {1, 1.02, 1.05, 1.1, 1.2, 1.4};
    setLatestGates(space, kMultiples[draws.below(std::size(kMultiples))], begin, end, next);
  } else if (choice < .8) {
    for (size_t i = begin; i < end; ++i)
      next.gathers[i].gate = 0;
  }
  return true;
}

bool RandomMove::rebuildReductions(uint32_t from, uint32_t to) {
  auto isReadyBefore = [&](const std::vector<uint32_t> &bucket, uint32_t position) {
    return space.problem.reductions[bucket.back()].ready < position;
  };
  auto first = next.reductions.begin(), last = next.reductions.end();
  auto begin = std::lower_bound(first, last, from, isReadyBefore);
  auto end = std::lower_bound(begin, last, to, isReadyBefore);
  if (begin == end)
    return false;
  rebuild(next.reductions, size_t(begin - first), size_t(end - first), 1 + draws.below(3));
  return true;
}

bool RandomMove::make() {
  constexpr double kChunkShare = .1, kTransportShare = .3;
  if (!space.mayChunk.empty() && draws.fraction() < kChunkShare)
    return moveChunks();
  if (space.problem.hasTransports() && draws.fraction() < kTransportShare)
    return moveTransports();
  double choice = draws.fraction();
  if (choice < .02)
    return moveLanes();
  if (choice < .2)
    return moveReductionGates();
  if (choice < .36)
    return moveLaunches();
  if (choice < .44)
    return rebuildGathers();
  if (choice < .46)
    return rebuildReductions(uint32_t(draws.below(space.startNs.size())), UINT32_MAX);
  if (choice < .55)
    return moveBuckets(next.gathers, .6);
  if (choice < .68)
    return moveBuckets(next.reductions, .5);
  if (choice < .84)
    return moveKeeps();
  return moveGates();
}
