//===- LocalSearch.cpp - Late acceptance over explicit decisions ----------===//

#include "Bucketing.h"
#include "Search.h"

#include <algorithm>
#include <cmath>
#include <random>

using namespace fsdp::schedule;

namespace {

/// Numbers that are the same from every standard library.
class Random {
public:
  explicit Random(uint64_t seed) : generator(seed) {}
  size_t below(size_t end) { return size_t(generator() % end); }
  double fraction() { return double(generator() >> 11) * 0x1p-53; }

private:
  std::mt19937_64 generator;
};

class LocalSearch {
public:
  LocalSearch(const SearchSpace &space, bool merge, uint64_t seed, Evaluator &evaluator)
      : space(space), merge(merge), evaluator(evaluator), random(seed) {}
  void run();

private:
  /// Some of `count` neighbours: one, or every first to fourth of a stretch, since layers are
  /// alike.
  struct Pattern {
    size_t begin, end, stride;
  };
  Pattern choosePattern(size_t count);

  void restart();
  /// Each changes `next`; false if there was nothing to change.
  bool move();
  template <typename Bucket> bool moveBuckets(std::vector<Bucket> &buckets, double mergeShare);
  bool moveKeeps();
  bool moveGates();
  bool moveReductionGates();
  bool swapGathers();
  /// Buckets of one size in a stretch, and their gates.
  bool rebuildGathers();
  bool rebuildReductions(uint32_t from, uint32_t to); // that get ready there
  bool movePriority();

  void gatherAgain(uint32_t use);
  void keep(uint32_t use);
  bool fits(uint32_t use) const;

  const SearchSpace &space;
  bool merge;
  Evaluator &evaluator;
  Random random;
  Decisions current, next;
  double currentNs = 0;
  std::vector<double> history; // what was current, so many moves ago
};

} // namespace

void LocalSearch::restart() {
  constexpr size_t kHistory = 60;
  const EvaluatedDecisions &best = evaluator.bestDecisions();
  current = best.decisions;
  currentNs = best.makespanNs;
  // Warm enough to undo a merge.
  const Problem &problem = space.problem;
  double latenciesNs = merge ? problem.gatherCost.latencyNs + problem.reduceCost.latencyNs : 0;
  history.assign(kHistory, currentNs + std::max(currentNs * .002, latenciesNs * .6));
}

void LocalSearch::gatherAgain(uint32_t use) {
  next.kept[use] = 0;
  uint32_t first = space.firstOf(use);
  auto after =
      std::find_if(next.gathers.begin(), next.gathers.end(), [&](const Decisions::Gathers &bucket) {
        return space.firstOf(bucket.uses.front()) >= first;
      });
  next.gathers.insert(after, {{use}, 0});
}

void LocalSearch::keep(uint32_t use) {
  next.kept[use] = 1;
  for (size_t i = 0; i < next.gathers.size(); ++i) {
    std::vector<uint32_t> &uses = next.gathers[i].uses;
    auto member = std::find(uses.begin(), uses.end(), use);
    if (member == uses.end())
      continue;
    uses.erase(member);
    if (uses.empty())
      next.gathers.erase(next.gathers.begin() + ptrdiff_t(i));
    return;
  }
}

bool LocalSearch::fits(uint32_t use) const {
  return MemoryProfile(space, next.kept)
      .fits(space.gapBegin(use), space.firstOf(use), space.bytesOf(use));
}

LocalSearch::Pattern LocalSearch::choosePattern(size_t count) {
  constexpr double kSingle = .6;
  constexpr size_t kMaxStride = 4;
  size_t begin = random.below(count);
  if (random.fraction() < kSingle)
    return {begin, begin + 1, 1};
  size_t end = random.fraction() < .5 ? count : begin + 1 + random.below(count - begin);
  return {begin, end, 1 + random.below(kMaxStride)};
}

static std::vector<uint32_t> &membersOf(Decisions::Gathers &bucket) { return bucket.uses; }
static std::vector<uint32_t> &membersOf(std::vector<uint32_t> &bucket) { return bucket; }
static Decisions::Gathers withMembers(const Decisions::Gathers &bucket,
                                      std::vector<uint32_t> members) {
  return {std::move(members), bucket.gate};
}
static std::vector<uint32_t> withMembers(const std::vector<uint32_t> &,
                                         std::vector<uint32_t> members) {
  return members;
}

/// Merges bucket i with the next one, splits it, or shifts the next one's first member into it.
template <typename Bucket>
bool LocalSearch::moveBuckets(std::vector<Bucket> &buckets, double mergeShare) {
  if (!merge || buckets.size() < 2)
    return false;
  bool isMerge = random.fraction() < mergeShare, changed = false;
  Pattern pattern = choosePattern(buckets.size() - 1);
  size_t stride = isMerge ? pattern.stride + 1 : pattern.stride;
  // From behind, so that indices stay valid.
  for (size_t i = pattern.begin + (pattern.end - 1 - pattern.begin) / stride * stride;;
       i -= stride) {
    auto at = buckets.begin() + ptrdiff_t(i);
    std::vector<uint32_t> &members = membersOf(*at), &others = membersOf(at[1]);
    if (isMerge) {
      members.insert(members.end(), others.begin(), others.end());
      buckets.erase(at + 1);
      changed = true;
    } else if (members.size() > 1) {
      size_t middle = 1 + random.below(members.size() - 1);
      Bucket tail = withMembers(*at, {members.begin() + ptrdiff_t(middle), members.end()});
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

bool LocalSearch::moveKeeps() {
  const std::vector<uint32_t> &candidates = space.mayKeep;
  if (candidates.empty())
    return false;
  uint32_t use = candidates[random.below(candidates.size())];
  if (next.kept[use]) {
    gatherAgain(use);
    constexpr int kReplacements = 4;
    if (random.fraction() < .7)
      for (int i = 0; i < kReplacements; ++i) {
        uint32_t other = candidates[random.below(candidates.size())];
        if (other != use && !next.kept[other] && fits(other))
          keep(other);
      }
    return true;
  }
  constexpr int kEvictions = 2;
  for (int i = 0; i < kEvictions && !fits(use); ++i) {
    std::vector<uint32_t> kept;
    std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(kept),
                 [&](uint32_t other) { return next.kept[other]; });
    if (kept.empty())
      return false;
    gatherAgain(kept[random.below(kept.size())]);
  }
  if (!fits(use))
    return false;
  keep(use);
  return true;
}

bool LocalSearch::moveGates() {
  if (next.gathers.empty())
    return false;
  constexpr double kMultiples[] = {0, .05, .25, .5, 1, 1.5, 2, 4}; // of its duration; 0: no gate
  double multiple = kMultiples[random.below(std::size(kMultiples))];
  bool withReduction = random.fraction() < .25;
  Pattern pattern = choosePattern(next.gathers.size());
  bool changed = false;
  for (size_t i = pattern.begin; i < pattern.end; i += pattern.stride) {
    Decisions::Gathers &bucket = next.gathers[i];
    uint32_t gate = multiple > 0 ? gateBefore(space, bucket.uses, multiple, withReduction) : 0;
    changed |= bucket.gate != gate;
    bucket.gate = gate;
  }
  return changed;
}

bool LocalSearch::moveReductionGates() {
  const std::vector<Reduction> &reductions = space.problem.reductions;
  if (reductions.empty())
    return false;
  constexpr size_t kFarthest = 6; // events
  size_t events = random.fraction() < .3 ? 0 : 1 + random.below(kFarthest);
  Pattern pattern = choosePattern(reductions.size());
  next.reductionGates.resize(reductions.size());
  bool changed = false;
  for (size_t i = pattern.begin; i < pattern.end; i += pattern.stride) {
    uint32_t gate = events ? space.eventAfter(reductions[i].ready, events) : 0;
    changed |= next.reductionGates[i] != gate;
    next.reductionGates[i] = gate;
  }
  return changed;
}

bool LocalSearch::swapGathers() {
  if (next.gathers.size() < 2)
    return false;
  size_t i = random.below(next.gathers.size() - 1);
  std::swap(next.gathers[i], next.gathers[i + 1]);
  return true;
}

template <typename Bucket>
static void rebuild(std::vector<Bucket> &buckets, size_t begin, size_t end, size_t numMembers) {
  Bucket whole = buckets[begin];
  std::vector<uint32_t> all;
  for (size_t i = begin; i < end; ++i)
    all.insert(all.end(), membersOf(buckets[i]).begin(), membersOf(buckets[i]).end());
  std::sort(all.begin(), all.end());
  std::vector<Bucket> rebuilt;
  for (size_t i = 0; i < all.size(); i += numMembers) {
    auto first = all.begin() + ptrdiff_t(i);
    rebuilt.push_back(
        withMembers(whole, {first, std::min(first + ptrdiff_t(numMembers), all.end())}));
  }
  buckets.erase(buckets.begin() + ptrdiff_t(begin), buckets.begin() + ptrdiff_t(end));
  buckets.insert(buckets.begin() + ptrdiff_t(begin), rebuilt.begin(), rebuilt.end());
}

bool LocalSearch::rebuildGathers() {
  if (next.gathers.size() < 2)
    return false;
  size_t begin = random.below(next.gathers.size());
  size_t end = random.fraction() < .3 ? next.gathers.size()
                                      : begin + 1 + random.below(next.gathers.size() - begin);
  size_t after = next.gathers.size() - end;
  if (merge) {
    constexpr size_t kMembers[] = {1, 1, 2, 2, 3, 4, 5, 6, 8, 12};
    uint32_t from = space.firstOf(next.gathers[begin].uses.front());
    uint32_t to = space.firstOf(next.gathers[end - 1].uses.back());
    rebuild(next.gathers, begin, end, kMembers[random.below(std::size(kMembers))]);
    if (random.fraction() < .4)
      rebuildReductions(from, to);
  }
  end = next.gathers.size() - after;
  double choice = random.fraction();
  if (choice < .5) {
    constexpr double kMultiples[] = {1, 1.02, 1.05, 1.1, 1.2, 1.4};
    setLatestGates(space, kMultiples[random.below(std::size(kMultiples))], begin, end, next);
  } else if (choice < .8) {
    for (size_t i = begin; i < end; ++i)
      next.gathers[i].gate = 0;
  }
  return true;
}

bool LocalSearch::rebuildReductions(uint32_t from, uint32_t to) {
  auto isReadyBefore = [&](const std::vector<uint32_t> &bucket, uint32_t position) {
    return space.problem.reductions[bucket.back()].ready < position;
  };
  auto first = next.reductions.begin(), last = next.reductions.end();
  auto begin = std::lower_bound(first, last, from, isReadyBefore);
  auto end = std::lower_bound(begin, last, to, isReadyBefore);
  if (!merge || begin == end)
    return false;
  rebuild(next.reductions, size_t(begin - first), size_t(end - first), 1 + random.below(3));
  return true;
}

bool LocalSearch::movePriority() {
  if (!space.problem.oneLane && !next.shareLane)
    return false;
  next.priority = LanePriority((unsigned(next.priority) + 1 + random.below(2)) % 3);
  return true;
}

bool LocalSearch::move() {
  double choice = random.fraction();
  if (choice < .12)
    return rebuildGathers();
  if (choice < .15)
    return rebuildReductions(uint32_t(random.below(space.startNs.size())), UINT32_MAX);
  if (choice < .3)
    return moveBuckets(next.gathers, .6);
  if (choice < .5)
    return moveBuckets(next.reductions, .5);
  if (choice < .75)
    return moveKeeps();
  if (choice < .88)
    return moveGates();
  if (choice < .94)
    return moveReductionGates();
  if (choice < .985)
    return swapGathers();
  return movePriority();
}

void LocalSearch::run() {
  constexpr int kPatience = 20000, kRestart = 1000; // moves without a better plan
  int failures = 0, sinceRestart = 0;
  double bestNs = evaluator.bestDecisions().makespanNs;
  restart();
  for (size_t step = 0; !evaluator.isDone() && failures < kPatience; ++step) {
    next = current;
    if (!move()) {
      ++failures;
      continue;
    }
    double makespanNs = evaluator.evaluate(next);
    double &before = history[step % history.size()];
    if (makespanNs <= currentNs || makespanNs <= before) {
      current = next;
      currentNs = makespanNs;
    }
    before = std::min(before, currentNs);
    if (evaluator.bestDecisions().makespanNs < bestNs) {
      bestNs = evaluator.bestDecisions().makespanNs;
      failures = sinceRestart = 0;
      continue;
    }
    ++failures;
    if (++sinceRestart > kRestart) {
      sinceRestart = 0;
      restart();
    }
  }
}

void fsdp::schedule::searchLocally(const SearchSpace &space, bool merge, uint64_t seed,
                                   Evaluator &evaluator) {
  if (std::isfinite(evaluator.bestDecisions().makespanNs))
    LocalSearch(space, merge, seed, evaluator).run();
}
