//===- NeighbourMerges.cpp - Neighbouring buckets, one pair at a time -----===//

#include "Search.h"

#include <algorithm>
#include <cmath>

using namespace fsdp::schedule;

using GatherBuckets = std::vector<Decisions::Gathers>;
using ReductionBuckets = std::vector<std::vector<uint32_t>>;

static std::vector<uint32_t> &membersOf(Decisions::Gathers &bucket) { return bucket.uses; }
static std::vector<uint32_t> &membersOf(std::vector<uint32_t> &bucket) { return bucket; }

static void openGate(Decisions::Gathers &bucket, const Decisions::Gathers &other) {
  bucket.gate = std::min(bucket.gate, other.gate);
}
static void openGate(std::vector<uint32_t> &, const std::vector<uint32_t> &) {}

/// Buckets i and i + 1 as one.
template <typename Buckets> static void merge(Buckets &buckets, size_t i) {
  auto &members = membersOf(buckets[i]), &others = membersOf(buckets[i + 1]);
  members.insert(members.end(), others.begin(), others.end());
  openGate(buckets[i], buckets[i + 1]);
  buckets.erase(buckets.begin() + ptrdiff_t(i) + 1);
}

/// The first member of bucket i + 1 goes to bucket i, or the last one of bucket i to bucket i + 1.
template <typename Buckets> static bool shiftBack(Buckets &buckets, size_t i) {
  auto &members = membersOf(buckets[i]), &others = membersOf(buckets[i + 1]);
  if (others.size() < 2)
    return false;
  members.push_back(others.front());
  others.erase(others.begin());
  return true;
}
template <typename Buckets> static bool shiftForward(Buckets &buckets, size_t i) {
  auto &members = membersOf(buckets[i]), &others = membersOf(buckets[i + 1]);
  if (members.size() < 2)
    return false;
  others.insert(others.begin(), members.back());
  members.pop_back();
  return true;
}

template <typename Buckets>
static void passOver(Decisions &decisions, double &currentNs, Buckets Decisions::*buckets,
                     Evaluator &evaluator) {
  auto improves = [&](auto change, size_t i) {
    Decisions changed = decisions;
    if (!change(changed.*buckets, i))
      return false;
    double makespanNs = evaluator.evaluate(changed);
    if (makespanNs >= currentNs)
      return false;
    currentNs = makespanNs;
    decisions = std::move(changed);
    return true;
  };
  for (size_t i = 0; i + 1 < (decisions.*buckets).size() && !evaluator.isDone();) {
    bool improved = improves(
                        [](Buckets &all, size_t at) {
                          merge(all, at);
                          return true;
                        },
                        i) ||
                    improves(shiftBack<Buckets>, i) || improves(shiftForward<Buckets>, i);
    if (!improved)
      ++i;
  }
}

void fsdp::schedule::mergeNeighbours(const SearchSpace &space, Evaluator &evaluator) {
  if (std::isinf(evaluator.bestDecisions().makespanNs))
    return;
  Decisions decisions = evaluator.bestDecisions().decisions;
  double currentNs = evaluator.bestDecisions().makespanNs;
  passOver<GatherBuckets>(decisions, currentNs, &Decisions::gathers, evaluator);
  passOver<ReductionBuckets>(decisions, currentNs, &Decisions::reductions, evaluator);
}
