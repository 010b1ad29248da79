//===- SubsetSumTest.cpp - How much of a capacity whole buffers can fill --===//

#include "Bounds/FluidProgram.h"
#include "RandomProblem.h"

#include <gtest/gtest.h>

using namespace fsdp::schedule;

TEST(SubsetSum, FillsWithWholeBuffers) {
  SizeCounts sizes{{30, 2}, {100, 3}};
  EXPECT_EQ(largestSubsetSum(sizes, 29), 0);
  EXPECT_EQ(largestSubsetSum(sizes, 59), 30);
  EXPECT_EQ(largestSubsetSum(sizes, 99), 60);
  EXPECT_EQ(largestSubsetSum(sizes, 259), 230);
  EXPECT_EQ(largestSubsetSum(sizes, 1000), 360);
}

TEST(SubsetSum, NothingFitsIntoNothing) {
  EXPECT_EQ(largestSubsetSum({}, 100), 0);
  EXPECT_EQ(largestSubsetSum({{1, 1}}, 0), 0);
  EXPECT_EQ(largestSubsetSum({{1, 1}}, -1), 0);
}

TEST(SubsetSum, AgreesWithAllSubsets) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Random random(seed);
    SizeCounts sizes;
    std::vector<int64_t> sums{0};
    for (int i = 0; i < 10; ++i) {
      int64_t size = random.integer(1, 5) * 7 + random.integer(0, 3);
      ++sizes[size];
      for (size_t j = 0, end = sums.size(); j < end; ++j)
        sums.push_back(sums[j] + size);
    }
    int64_t capacity = random.integer(1, 250), best = 0;
    for (int64_t sum : sums)
      if (sum <= capacity)
        best = std::max(best, sum);
    EXPECT_EQ(largestSubsetSum(sizes, capacity), best) << "seed " << seed;
  }
}

// Sizes of which no sum is odd, too many to try: the answer may be the capacity, but not less than
// what fits.
TEST(SubsetSum, GivesUpUpwards) {
  SizeCounts sizes;
  for (int64_t i = 0; i < 60; ++i)
    sizes[1000 + 14 * i] = 1;
  int64_t sum = largestSubsetSum(sizes, 30'001);
  EXPECT_TRUE(sum == 30'000 || sum == 30'001) << sum;
}
