//===- LocalSearch.cpp - Late acceptance over explicit decisions ----------===//

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
  void restart();
  /// Each changes `next`; false if there was nothing to change.
  bool move();
  bool moveGathers();
  bool moveReductions();
  bool moveKeeps();
  bool moveGate();
  bool swapGathers();
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

bool LocalSearch::moveGathers() {
  std::vector<Decisions::Gathers> &buckets = next.gathers;
  if (!merge || buckets.size() < 2)
    return false;
  size_t i = random.below(buckets.size() - 1);
  std::vector<uint32_t> &uses = buckets[i].uses, &others = buckets[i + 1].uses;
  if (random.fraction() < .6) {
    uses.insert(uses.end(), others.begin(), others.end());
    buckets[i].gate = std::min(buckets[i].gate, buckets[i + 1].gate);
    buckets.erase(buckets.begin() + ptrdiff_t(i) + 1);
  } else if (uses.size() > 1) {
    auto middle = uses.begin() + 1 + ptrdiff_t(random.below(uses.size() - 1));
    Decisions::Gathers tail{{middle, uses.end()}, buckets[i].gate};
    uses.erase(middle, uses.end());
    buckets.insert(buckets.begin() + ptrdiff_t(i) + 1, std::move(tail));
  } else if (others.size() > 1) {
    uses.push_back(others.front());
    others.erase(others.begin());
  } else {
    return false;
  }
  return true;
}

bool LocalSearch::moveReductions() {
  std::vector<std::vector<uint32_t>> &buckets = next.reductions;
  if (!merge || buckets.size() < 2)
    return false;
  size_t i = random.below(buckets.size() - 1);
  std::vector<uint32_t> &members = buckets[i], &others = buckets[i + 1];
  if (random.fraction() < .5) {
    members.insert(members.end(), others.begin(), others.end());
    buckets.erase(buckets.begin() + ptrdiff_t(i) + 1);
  } else if (members.size() > 1) {
    auto middle = members.begin() + 1 + ptrdiff_t(random.below(members.size() - 1));
    std::vector<uint32_t> tail(middle, members.end());
    members.erase(middle, members.end());
    buckets.insert(buckets.begin() + ptrdiff_t(i) + 1, std::move(tail));
  } else if (others.size() > 1) {
    members.push_back(others.front());
    others.erase(others.begin());
  } else {
    return false;
  }
  return true;
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

bool LocalSearch::moveGate() {
  if (next.gathers.empty())
    return false;
  Decisions::Gathers &bucket = next.gathers[random.below(next.gathers.size())];
  constexpr double kMultiples[] = {0, 1, 1.5, 2, 4}; // of its duration; 0: no gate
  double multiple = kMultiples[random.below(std::size(kMultiples))];
  uint32_t gate = 0;
  if (multiple > 0) {
    uint32_t first = space.firstOf(bucket.uses.front());
    double durationNs = space.problem.gatherCost.durationNs(space.bytesOf(bucket.uses));
    gate = std::min(first, space.positionAt(space.startNs[first] - multiple * durationNs));
  }
  if (gate == bucket.gate)
    return false;
  bucket.gate = gate;
  return true;
}

bool LocalSearch::swapGathers() {
  if (next.gathers.size() < 2)
    return false;
  size_t i = random.below(next.gathers.size() - 1);
  std::swap(next.gathers[i], next.gathers[i + 1]);
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
  if (choice < .3)
    return moveGathers();
  if (choice < .5)
    return moveReductions();
  if (choice < .83)
    return moveKeeps();
  if (choice < .91)
    return moveGate();
  if (choice < .98)
    return swapGathers();
  return movePriority();
}

void LocalSearch::run() {
  constexpr int kPatience = 3000, kRestart = 350; // moves without a better plan
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
