#include "data/SampleOrder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

using namespace fsdp::rt;

TEST(SampleOrder, RanksReadConsecutiveBlocksAndWrap) {
  // 2 ranks, 3 samples each, 10 samples: step 1 begins at position 6 and wraps after sample 9.
  SampleOrder first(10, 3, 0, 2, std::nullopt), second(10, 3, 1, 2, std::nullopt);
  std::vector<int64_t> read;
  for (int64_t step = 0; step < 2; ++step)
    for (SampleOrder *order : {&first, &second})
      for (int64_t i = 0; i < 3; ++i)
        read.push_back(order->sample(step, i));
  EXPECT_EQ(read, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1}));
}

TEST(SampleOrder, ShuffledPassesSeeEverySampleOnceAndDiffer) {
  SampleOrder order(10, 5, 0, 1, 7);
  std::vector<std::vector<int64_t>> passes(2);
  for (int64_t step = 0; step < 4; ++step)
    for (int64_t i = 0; i < 5; ++i)
      passes[static_cast<size_t>(step / 2)].push_back(order.sample(step, i));
  EXPECT_NE(passes[0], passes[1]);
  for (std::vector<int64_t> &pass : passes) {
    std::sort(pass.begin(), pass.end());
    EXPECT_EQ(pass, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
}

TEST(SampleOrder, ShuffledRanksShareOneOrder) {
  SampleOrder alone(100, 4, 0, 1, 3), first(100, 2, 0, 2, 3), second(100, 2, 1, 2, 3);
  for (int64_t step = 0; step < 60; ++step)
    for (int64_t i = 0; i < 4; ++i)
      EXPECT_EQ(alone.sample(step, i), (i < 2 ? first : second).sample(step, i % 2));
}

// A run that goes on with half the batch after 3 steps of the whole one reads what that would have.
TEST(SampleOrder, AnOriginGoesOnWithAnotherBatch) {
  SampleOrder whole(10, 4, 0, 1, 5), half(10, 2, 0, 1, 5, /*origin=*/3 * 4 - 3 * 2);
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(half.sample(3 + i / 2, i % 2), whole.sample(3, i));
}

// Each sample either trains, in the order of the data, or is held out, one of each part.
TEST(SampleSplit, HoldsOutOneOfEachPart) {
  for (int64_t samples : {4, 20, 101, 1000})
    for (double fraction : {0.5, 0.3, 0.25, 0.1, 0.017}) {
      const SampleSplit split(samples, fraction, 5);
      const auto held = static_cast<int64_t>(fraction * static_cast<double>(samples));
      EXPECT_EQ(split.heldOut(), held);
      EXPECT_EQ(split.training(), samples - held);
      std::vector<int64_t> training, all;
      for (int64_t i = 0; i < split.training(); ++i)
        training.push_back(split.trainingSample(i));
      EXPECT_TRUE(std::is_sorted(training.begin(), training.end()));
      all = training;
      for (int64_t i = 0; i < held; ++i) {
        const int64_t sample = split.heldOutSample(i);
        EXPECT_GE(sample, i * samples / held);
        EXPECT_LT(sample, (i + 1) * samples / held);
        all.push_back(sample);
      }
      std::sort(all.begin(), all.end());
      for (int64_t i = 0; i < samples; ++i)
        EXPECT_EQ(all[static_cast<size_t>(i)], i);
    }
}

TEST(SampleSplit, DependsOnTheSeed) {
  const SampleSplit one(10000, 0.1, 1), again(10000, 0.1, 1), other(10000, 0.1, 2);
  int64_t equal = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(one.heldOutSample(i), again.heldOutSample(i));
    equal += one.heldOutSample(i) == other.heldOutSample(i);
  }
  EXPECT_LT(equal, 200);
  // Far beyond what doubles and 64-bit products hold.
  const SampleSplit large(int64_t{1} << 53, 0.1, 3);
  EXPECT_LT(large.trainingSample(large.training() - 1), int64_t{1} << 53);
}

// Passes of 2 + 3 batches, shape by shape; a shape's batches go on in the next pass.
TEST(ShapeOrder, ShapesFollowEachOther) {
  ShapeOrder order({2, 3}, std::nullopt);
  EXPECT_EQ(order.stepsPerPass(), 5);
  const ShapeOrder::Place expected[] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {1, 2},
                                        {0, 2}, {0, 3}, {1, 3}, {1, 4}, {1, 5}};
  for (int64_t step = 0; step < 10; ++step)
    EXPECT_EQ(order.at(step), expected[step]) << step;
}

TEST(ShapeOrder, ShuffledPassesHaveEveryBatchOnceAndDiffer) {
  ShapeOrder order({5, 7, 1}, 3), again({5, 7, 1}, 3);
  std::vector<size_t> shapes[2];
  for (int64_t pass = 0; pass < 2; ++pass) {
    std::vector<std::vector<int64_t>> batches(3);
    for (int64_t step = 13 * pass; step < 13 * (pass + 1); ++step) {
      const ShapeOrder::Place place = order.at(step);
      batches[place.shape].push_back(place.batch);
      shapes[pass].push_back(place.shape);
    }
    const int64_t counts[] = {5, 7, 1};
    for (size_t shape = 0; shape < 3; ++shape) {
      std::sort(batches[shape].begin(), batches[shape].end());
      ASSERT_EQ(batches[shape].size(), static_cast<size_t>(counts[shape]));
      EXPECT_EQ(batches[shape].front(), pass * counts[shape]);
      EXPECT_EQ(batches[shape].back(), (pass + 1) * counts[shape] - 1);
    }
  }
  EXPECT_NE(shapes[0], shapes[1]);
  // A function of the step alone.
  EXPECT_EQ(again.at(20), order.at(20));
}

TEST(ShapeOrder, OneShapeHasTheStepsOfTheRun) {
  EXPECT_EQ(ShapeOrder({4}, 9).at(17), (ShapeOrder::Place{0, 17}));
}

TEST(Permutation, IsBijectiveForEverySize) {
  for (uint64_t size = 1; size < 300; ++size) {
    Permutation permutation(size, size * 31);
    std::vector<bool> seen(size);
    for (uint64_t i = 0; i < size; ++i) {
      uint64_t image = permutation(i);
      ASSERT_LT(image, size);
      ASSERT_FALSE(seen[image]) << size << " " << i;
      seen[image] = true;
    }
  }
}

TEST(Permutation, DependsOnTheSeedAlone) {
  Permutation a(1000, 1), again(1000, 1), b(1000, 2);
  unsigned equal = 0, fixed = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(a(i), again(i));
    equal += a(i) == b(i);
    fixed += a(i) == i;
  }
  // Two random permutations agree in one place on average.
  EXPECT_LT(equal, 10u);
  EXPECT_LT(fixed, 10u);
}
