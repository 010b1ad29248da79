//===- Bucketing.cpp - Buckets and gates from a recipe --------------------===//

#include "Bucketing.h"

#include "fsdp/Schedule/Simulate.h"

#include <algorithm>
#include <cassert>
#include <limits>

using namespace fsdp::schedule;

static std::vector<std::vector<uint32_t>> makeReductionBuckets(const SearchSpace &space,
                                                               const Recipe &recipe) {
  const std::vector<Reduction> &reductions = space.problem.reductions;
  MemoryProfile profile(space, recipe.kept, recipe.chunked);
  std::vector<std::vector<uint32_t>> buckets;
  int64_t bytes = 0;
  uint32_t update = 0;
  for (uint32_t i = 0; i < reductions.size(); ++i) {
    const Reduction &reduction = reductions[i];
    // The inputs of the bucket's members stay live until this member is ready. The last reduction
    // has a bucket of its own: no computation hides it.
    bool isLast = i + 1 == reductions.size();
    if (buckets.empty() || double(bytes) >= recipe.reductionBytes || isLast ||
        reduction.ready > update ||
        !profile.fits({reductions[buckets.back().front()].ready, reduction.ready, bytes})) {
      buckets.emplace_back();
      bytes = 0;
      update = reduction.update;
    }
    buckets.back().push_back(i);
    bytes += reduction.inputBytes;
    update = std::min(update, reduction.update);
  }
  return buckets;
}

static std::vector<Decisions::Gathers> makeGatherBuckets(const SearchSpace &space,
                                                         const Recipe &recipe) {
  MemoryProfile profile(space, recipe.kept, recipe.chunked);
  std::vector<Decisions::Gathers> buckets;
  int64_t bytes = 0;
  for (uint32_t use = 0; use < space.problem.uses.size(); ++use) {
    if (recipe.kept[use])
      continue;
    int64_t size = space.bytesOf(use);
    uint32_t first = space.firstOf(use);
    // The first gather has a bucket of its own: no computation hides it.
    bool begins = buckets.size() <= 1 || double(bytes) >= recipe.gatherBytes;
    if (!buckets.empty()) {
      uint32_t bucketFirst = space.firstOf(buckets.back().uses.front());
      bool apart = space.previousUse[use] < 0 || space.gapBegin(use) <= bucketFirst;
      if (first == bucketFirst && apart)
        begins = false;
      else if (!begins)
        begins = !apart || !profile.fits({bucketFirst, first, size});
      if (!begins)
        profile.add({bucketFirst, first, size});
    }
    if (begins || buckets.empty()) {
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().uses.push_back(use);
    bytes += size;
  }
  return buckets;
}

void fsdp::schedule::setLatestGates(const SearchSpace &space, double multiple, size_t begin,
                                    size_t end, Decisions &decisions) {
  const Problem &problem = space.problem;
  const double scale = problem.contention.gathers;
  // One lane, filled from the end of the step to its start. Reductions start when they are ready.
  std::vector<Interval> slots;
  for (const std::vector<uint32_t> &bucket : decisions.reductions) {
    double beginNs = scale * space.startNs[problem.reductions[bucket.back()].ready];
    if (!slots.empty())
      beginNs = std::max(beginNs, slots.back().endNs);
    slots.push_back({beginNs, beginNs + problem.ofReduction(bucket).totalNs()});
  }
  double nowNs = std::numeric_limits<double>::infinity();
  for (size_t i = decisions.gathers.size(); i-- > begin;) {
    Decisions::Gathers &bucket = decisions.gathers[i];
    uint32_t first = space.firstOf(bucket.uses.front());
    double durationNs =
        multiple * problem.ofGather(bucket.uses, decisions.chunked, bucket.byCopyEngine).totalNs();
    nowNs = std::min(nowNs, scale * space.startNs[first]);
    while (!slots.empty() && nowNs - durationNs < slots.back().endNs) {
      if (nowNs > slots.back().endNs)
        durationNs -= nowNs - slots.back().endNs;
      nowNs = std::min(nowNs, slots.back().startNs);
      slots.pop_back();
    }
    nowNs -= durationNs;
    if (i < end)
      bucket.gate = std::min(first, space.positionAt(nowNs / scale));
  }
}

Decisions fsdp::schedule::makeDecisions(const SearchSpace &space, const Recipe &recipe) {
  assert(recipe.kept.size() == space.problem.uses.size());
  Decisions decisions;
  decisions.kept = recipe.kept;
  decisions.chunked = recipe.chunked;
  decisions.gathers = makeGatherBuckets(space, recipe);
  for (Decisions::Gathers &bucket : decisions.gathers)
    bucket.byCopyEngine = recipe.byCopyEngine;
  decisions.reductions = makeReductionBuckets(space, recipe);
  if (recipe.latest > 0)
    setLatestGates(space, recipe.latest, 0, decisions.gathers.size(), decisions);
  decisions.shareLane = recipe.shareLane;
  return decisions;
}
