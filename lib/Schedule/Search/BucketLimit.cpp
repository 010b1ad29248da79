//===- BucketLimit.cpp - The most that one launch may move ----------------===//

#include "BucketLimit.h"

#include <algorithm>
#include <numeric>

using namespace fsdp::schedule;

static int64_t sizeOfUse(const Problem &problem, uint32_t use) {
  return problem.groups[problem.uses[use].group].gatheredBytes;
}
static int64_t sizeOfReduction(const Problem &problem, uint32_t reduction) {
  return problem.reductions[reduction].inputBytes;
}

/// Calls `end` with the range of members of each bucket that `members` become.
template <typename SizeOf, typename End>
static void cut(const std::vector<uint32_t> &members, int64_t maxBytes, SizeOf sizeOf, End end) {
  size_t begin = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    int64_t size = sizeOf(members[i]);
    if (i > begin && bytes + size > maxBytes) {
      end(members.begin() + ptrdiff_t(begin), members.begin() + ptrdiff_t(i));
      begin = i;
      bytes = 0;
    }
    bytes += size;
  }
  end(members.begin() + ptrdiff_t(begin), members.end());
}

Decisions fsdp::schedule::splitLargeBuckets(const Problem &problem, Decisions decisions,
                                            int64_t maxBytes) {
  std::vector<Decisions::Gathers> gathers;
  for (const Decisions::Gathers &bucket : decisions.gathers)
    cut(
        bucket.uses, maxBytes, [&](uint32_t use) { return sizeOfUse(problem, use); },
        [&](auto begin, auto end) {
          gathers.push_back({{begin, end}, bucket.gate});
        });
  decisions.gathers = std::move(gathers);
  std::vector<std::vector<uint32_t>> reductions;
  for (const std::vector<uint32_t> &bucket : decisions.reductions)
    cut(
        bucket, maxBytes, [&](uint32_t member) { return sizeOfReduction(problem, member); },
        [&](auto begin, auto end) { reductions.emplace_back(begin, end); });
  decisions.reductions = std::move(reductions);
  return decisions;
}

bool fsdp::schedule::hasLargeBucket(const Problem &problem, const Plan &plan, int64_t maxBytes) {
  auto isLarge = [&](const std::vector<uint32_t> &members, auto sizeOf) {
    return members.size() > 1 && std::accumulate(members.begin(), members.end(), int64_t(0),
                                                 [&](int64_t sum, uint32_t member) {
                                                   return sum + sizeOf(problem, member);
                                                 }) > maxBytes;
  };
  return std::any_of(plan.gathers.begin(), plan.gathers.end(),
                     [&](const GatherBucket &bucket) { return isLarge(bucket.uses, sizeOfUse); }) ||
         std::any_of(plan.reductions.begin(), plan.reductions.end(),
                     [&](const ReductionBucket &bucket) {
                       return isLarge(bucket.reductions, sizeOfReduction);
                     });
}
