//===- MutantTest.cpp - Plans with one thing wrong ------------------------===//

#include "BruteForcePeak.h"
#include "ExhaustiveSearch.h"
#include "RandomProblem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

using namespace fsdp::schedule;

namespace {

/// Changes one thing; false if the plan has nothing to change. What changes may be as good.
using Mutation = bool (*)(Plan &plan, Random &random);

template <typename Range> auto &pick(Range &range, Random &random) {
  return range[random.integer(0, range.size() - 1)];
}

bool dropWait(Plan &plan, Random &random) {
  if (plan.reductions.empty())
    return false;
  pick(plan.reductions, random).wait = UINT32_MAX;
  return true;
}
bool shiftWait(Plan &plan, Random &random) {
  if (plan.reductions.empty())
    return false;
  pick(plan.reductions, random).wait += uint32_t(random.chance(0.5) ? 1 : -1);
  return true;
}
bool shiftReduction(Plan &plan, Random &random) {
  if (plan.reductions.empty())
    return false;
  pick(plan.reductions, random).launch += uint32_t(random.chance(0.5) ? 1 : -1);
  return true;
}
bool shiftGather(Plan &plan, Random &random) {
  pick(plan.gathers, random).launch +=
      uint32_t(random.integer(1, 3) * (random.chance(0.5) ? 1 : -1));
  return true;
}
bool swapGathers(Plan &plan, Random &random) {
  std::swap(pick(plan.gathers, random), pick(plan.gathers, random));
  return true;
}
bool swapReductions(Plan &plan, Random &random) {
  if (plan.reductions.empty())
    return false;
  std::swap(pick(plan.reductions, random), pick(plan.reductions, random));
  return true;
}
bool swapUses(Plan &plan, Random &random) {
  std::swap(pick(pick(plan.gathers, random).uses, random),
            pick(pick(plan.gathers, random).uses, random));
  return true;
}
bool dropUse(Plan &plan, Random &random) {
  std::vector<uint32_t> &uses = pick(plan.gathers, random).uses;
  uses.erase(uses.begin() + random.integer(0, uses.size() - 1));
  return true;
}
bool dropGathers(Plan &plan, Random &random) {
  plan.gathers.erase(plan.gathers.begin() + random.integer(0, plan.gathers.size() - 1));
  return true;
}
bool doubleUse(Plan &plan, Random &random) {
  pick(plan.gathers, random).uses.push_back(pick(pick(plan.gathers, random).uses, random));
  return true;
}
bool doubleReduction(Plan &plan, Random &random) {
  if (plan.reductions.empty())
    return false;
  plan.reductions.push_back(pick(plan.reductions, random));
  return true;
}
bool flipKept(Plan &plan, Random &random) {
  pick(plan.kept, random) ^= 1;
  return true;
}
bool flipChunked(Plan &plan, Random &random) {
  if (plan.chunked.empty())
    plan.chunked.resize(plan.kept.size());
  pick(plan.chunked, random) ^= random.integer(1, 2);
  if (std::count(plan.chunked.begin(), plan.chunked.end(), 0) == ptrdiff_t(plan.chunked.size()))
    plan.chunked.clear();
  return true;
}
bool mergeGathers(Plan &plan, Random &random) {
  if (plan.gathers.size() < 2)
    return false;
  size_t i = random.integer(0, plan.gathers.size() - 2);
  std::vector<uint32_t> &uses = plan.gathers[i].uses;
  uses.insert(uses.end(), plan.gathers[i + 1].uses.begin(), plan.gathers[i + 1].uses.end());
  plan.gathers.erase(plan.gathers.begin() + i + 1);
  return true;
}
bool flipTransport(Plan &plan, Random &random) {
  pick(plan.gathers, random).byCopyEngine ^= 1;
  return true;
}
bool nameNobody(Plan &plan, Random &random) {
  pick(pick(plan.gathers, random).uses, random) = 1000;
  return true;
}

constexpr Mutation kMutations[] = {dropWait,    shiftWait,      shiftReduction,  shiftGather,
                                   swapGathers, swapReductions, swapUses,        dropUse,
                                   dropGathers, doubleUse,      doubleReduction, flipKept,
                                   flipChunked, mergeGathers,   flipTransport,   nameNobody};

/// For a set: equal for equal plans only.
std::vector<uint32_t> serialize(const Plan &plan) {
  std::vector<uint32_t> numbers(plan.kept.begin(), plan.kept.end());
  numbers.insert(numbers.end(), plan.chunked.begin(), plan.chunked.end());
  numbers.push_back(UINT32_MAX);
  for (const GatherBucket &bucket : plan.gathers) {
    numbers.push_back(bucket.uses.size());
    numbers.insert(numbers.end(), bucket.uses.begin(), bucket.uses.end());
    numbers.push_back(bucket.launch);
    numbers.push_back(bucket.byCopyEngine);
  }
  numbers.push_back(UINT32_MAX);
  for (const ReductionBucket &bucket : plan.reductions) {
    numbers.push_back(bucket.reductions.size());
    numbers.insert(numbers.end(), bucket.reductions.begin(), bucket.reductions.end());
    numbers.push_back(bucket.launch);
    numbers.push_back(bucket.wait);
  }
  numbers.push_back(plan.shareLane);
  return numbers;
}

} // namespace

// A mutant is accepted if and only if it is one of all valid plans and fits the cap.
TEST(Mutants, AreRejectedUnlessTheyAreValidPlans) {
  int numRejected = 0, numAccepted = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Problem problem = makeTinyProblem(seed);
    std::set<std::vector<uint32_t>> valid;
    forEachPlan(problem, [&](const Plan &plan) { valid.insert(serialize(plan)); });
    Random random(seed);
    problem.memoryCapBytes = problem.minimumPeak().bytes * random.integer(10, 15) / 10;
    for (int trial = 0; trial < 40; ++trial) {
      std::optional<Plan> plan = listSchedule(problem, makeRandomDecisions(problem, random)).plan;
      if (!plan)
        continue;
      ASSERT_TRUE(valid.count(serialize(*plan)));
      for (size_t i = 0; i < std::size(kMutations); ++i) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", mutation " + std::to_string(i));
        Plan mutant = *plan;
        if (!kMutations[i](mutant, random))
          continue;
        bool isValid = valid.count(serialize(mutant)) &&
                       findPeakByBruteForce(problem, mutant) <= *problem.memoryCapBytes;
        std::optional<std::string> wrong = verify(problem, mutant);
        ASSERT_EQ(!wrong, isValid) << wrong.value_or("accepted");
        ++(wrong ? numRejected : numAccepted);
      }
    }
  }
  EXPECT_GT(numRejected, 5000);
  EXPECT_GT(numAccepted, 500);
}

// What makes a plan incomplete or incoherent is refused on problems of any size.
TEST(Mutants, OfLargePlansAreRejected) {
  constexpr Mutation kAlwaysWrong[] = {dropWait, dropUse,         dropGathers, doubleUse,
                                       flipKept, doubleReduction, nameNobody};
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = makeRandomProblem(seed);
    problem.memoryCapBytes = problem.minimumPeak().bytes * 6 / 5;
    Random random(seed);
    std::optional<Plan> plan;
    while (!plan)
      plan = listSchedule(problem, makeRandomDecisions(problem, random)).plan;
    for (Mutation mutation : kAlwaysWrong) {
      Plan mutant = *plan;
      if (mutation(mutant, random)) {
        ASSERT_TRUE(verify(problem, mutant));
      }
    }
    // A cap that is one byte too small, a buffer that is larger than the plan's maker knew.
    int64_t peakBytes = findPeakByBruteForce(problem, *plan);
    problem.memoryCapBytes = peakBytes - 1;
    ASSERT_TRUE(verify(problem, *plan));
    problem.memoryCapBytes = peakBytes;
    ASSERT_FALSE(verify(problem, *plan));
    Problem larger = problem;
    pick(larger.groups, random).gatheredBytes += peakBytes;
    ASSERT_TRUE(verify(larger, *plan));
  }
}

TEST(Peak, EqualsASumOverEveryMoment) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Problem problem = makeRandomProblem(seed);
    Random random(seed);
    for (int trial = 0; trial < 3; ++trial) {
      if (trial > 0)
        problem.memoryCapBytes = problem.minimumPeak().bytes * random.integer(10, 15) / 10;
      std::optional<Plan> plan = listSchedule(problem, makeRandomDecisions(problem, random)).plan;
      if (plan) {
        ASSERT_EQ(peakOf(problem, *plan).bytes, findPeakByBruteForce(problem, *plan)) << seed;
      }
    }
  }
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Problem problem = makeTinyProblem(seed);
    forEachPlan(problem, [&](const Plan &plan) {
      ASSERT_EQ(peakOf(problem, plan).bytes, findPeakByBruteForce(problem, plan)) << seed;
    });
  }
}
