//===- ArenaPlannerTest.cpp - Place buffers with live ranges --------------===//

#include "fsdp/Plan/ArenaPlanner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

using namespace fsdp::plan;

static void expectValid(const std::vector<BufferRange> &buffers, const ArenaPlan &plan) {
  Overlap overlap = findOverlap(buffers, plan.offsets);
  EXPECT_EQ(overlap.first, -1) << overlap.first << " and " << overlap.second << " overlap";
  EXPECT_GE(plan.arenaBytes, plan.peakLiveBytes);
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % kArenaAlignmentBytes, 0);
    EXPECT_GE(plan.offsets[i], 0);
    EXPECT_LE(plan.offsets[i] + buffers[i].sizeBytes, plan.arenaBytes);
  }
}

/// The buffers of a training step of `layers` equal layers: what is saved for backward, short-lived
/// values, gathered parameters and a bundle of gradients per layer.
static std::vector<BufferRange> makeStep(int64_t layers, int64_t opsPerLayer) {
  std::vector<BufferRange> buffers;
  int64_t half = layers * opsPerLayer, end = 2 * half;
  std::mt19937 random(1);
  auto bytes = [&](int64_t most) { return int64_t(random() % most) + 1; };
  for (int64_t layer = 0; layer < layers; ++layer) {
    int64_t forward = layer * opsPerLayer, backward = end - forward - opsPerLayer;
    buffers.push_back(
        {200'000, std::max<int64_t>(forward - opsPerLayer, 0), forward + opsPerLayer - 1});
    buffers.push_back(
        {200'000, std::max<int64_t>(backward - opsPerLayer, half), backward + opsPerLayer - 1});
    for (int64_t op = 0; op < opsPerLayer; ++op) {
      int64_t at = forward + op;
      // Every fourth value is saved for backward, the others die soon.
      int64_t last = op % 4 == 0 ? end - 1 - at : std::min(at + 1 + op % 3, half - 1);
      buffers.push_back({bytes(50'000), at, last});
      at = backward + op;
      if (op % 5 == 0)
        buffers.push_back(
            {4096, at, std::min(backward + 2 * opsPerLayer, end - 1), layer, 4096 * (op / 5)});
      else
        buffers.push_back({bytes(50'000), at, std::min(at + 1 + op % 4, end - 1)});
    }
  }
  return buffers;
}

TEST(ArenaPlanner, NothingNeedsNothing) {
  ArenaPlan plan = planArena({});
  EXPECT_EQ(plan.arenaBytes, 0);
  EXPECT_EQ(plan.peakLiveBytes, 0);
}

TEST(ArenaPlanner, ReusesWhatIsDead) {
  std::vector<BufferRange> buffers = {{100, 0, 1}, {100, 2, 3}};
  ArenaPlan plan = planArena(buffers);
  expectValid(buffers, plan);
  EXPECT_EQ(plan.arenaBytes, 128);
}

// A buffer that is last read where another one is first written may not share its bytes.
TEST(ArenaPlanner, BothEndsAreLive) {
  std::vector<BufferRange> buffers = {{64, 0, 1}, {64, 1, 2}};
  EXPECT_EQ(planArena(buffers).arenaBytes, 128);
}

TEST(ArenaPlanner, EmptyBuffersTakeNoPlace) {
  std::vector<BufferRange> buffers = {{0, 0, 9}, {64, 0, 9}, {0, 0, 9}};
  ArenaPlan plan = planArena(buffers);
  expectValid(buffers, plan);
  EXPECT_EQ(plan.arenaBytes, 64);
}

// Behind a step with a known arena come buffers of another step, and one that is live throughout.
TEST(ArenaPlanner, FillsAKnownArena) {
  std::vector<BufferRange> buffers = makeStep(6, 20);
  const ArenaPlan alone = planArena(buffers);
  const auto end = std::ranges::max(buffers, {}, &BufferRange::last).last + 1;
  std::vector<int64_t> known = alone.offsets;
  for (int64_t i = 0; i < 20; ++i)
    buffers.push_back({10'000, end + i, end + i + 2});
  buffers.push_back({640, 0, end + 30});
  known.resize(buffers.size(), -1);
  const ArenaPlan filled = fillArena(buffers, known);
  expectValid(buffers, filled);
  EXPECT_LE(filled.arenaBytes, alone.arenaBytes + 640);
  for (size_t i = 0; i < alone.offsets.size(); ++i)
    EXPECT_EQ(filled.offsets[i], alone.offsets[i]);
}

TEST(ArenaPlanner, BundlesKeepTheirDistances) {
  std::vector<BufferRange> buffers = {{64, 3, 9, 7, 64}, {64, 5, 9, 7, 0}, {64, 0, 4}, {64, 4, 6}};
  ArenaPlan plan = planArena(buffers);
  expectValid(buffers, plan);
  EXPECT_EQ(plan.offsets[0], plan.offsets[1] + 64);
  // The part that is not yet alive may hold something else until then.
  EXPECT_EQ(plan.arenaBytes, plan.peakLiveBytes);
}

TEST(ArenaPlanner, RandomBuffersAreDisjoint) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::vector<BufferRange> buffers;
    for (int i = 0; i < 200; ++i) {
      int64_t first = random() % 100;
      BufferRange buffer{int64_t(random() % 5000), first, first + int64_t(random() % 20)};
      if (i % 10 < 3) {
        buffer.bundle = i / 10;
        buffer.bundleOffset = 5056 * (i % 10);
      }
      buffers.push_back(buffer);
    }
    expectValid(buffers, planArena(buffers));
  }
}

TEST(ArenaPlanner, ATrainingStepIsTight) {
  std::vector<BufferRange> buffers = makeStep(12, 60);
  ArenaPlan plan = planArena(buffers);
  expectValid(buffers, plan);
  EXPECT_LE(plan.arenaBytes, 1.02 * plan.peakLiveBytes);
}

// Too large for first fit; the skyline alone is nearly as tight.
TEST(ArenaPlanner, AHugeStepIsTight) {
  std::vector<BufferRange> buffers = makeStep(1700, 100);
  ArenaPlan plan = planArena(buffers);
  expectValid(buffers, plan);
  EXPECT_LE(plan.arenaBytes, 1.02 * plan.peakLiveBytes);
}

TEST(ArenaPlanner, SameInputSamePlan) {
  std::vector<BufferRange> buffers = makeStep(4, 30);
  EXPECT_EQ(planArena(buffers).offsets, planArena(buffers).offsets);
}

//===----------------------------------------------------------------------===//
// The checker
//===----------------------------------------------------------------------===//

static Overlap find(std::vector<BufferRange> buffers, std::vector<int64_t> offsets) {
  return findOverlap(buffers, offsets);
}

TEST(FindOverlap, AcceptsNeighboursInPlaceAndTime) {
  EXPECT_EQ(find({{64, 0, 4}, {64, 0, 4}}, {0, 64}).first, -1);
  EXPECT_EQ(find({{64, 0, 4}, {64, 5, 9}}, {0, 0}).first, -1);
}

TEST(FindOverlap, FindsEachWayToOverlap) {
  EXPECT_EQ(find({{64, 0, 4}, {64, 4, 9}}, {0, 0}).second, 1);   // one position
  EXPECT_EQ(find({{65, 0, 4}, {64, 0, 4}}, {0, 64}).second, 1);  // one byte
  EXPECT_EQ(find({{64, 0, 4}, {65, 0, 4}}, {64, 0}).second, 1);  // from below
  EXPECT_EQ(find({{256, 0, 9}, {64, 2, 3}}, {0, 64}).second, 1); // inside
  EXPECT_EQ(find({{64, 2, 3}, {256, 0, 9}}, {64, 0}).second, 1); // around
}

TEST(FindOverlap, NamesThePair) {
  Overlap overlap = find({{64, 0, 9}, {64, 1, 2}, {64, 3, 4}, {64, 4, 5}}, {0, 64, 64, 64});
  EXPECT_EQ(overlap.first, 2);
  EXPECT_EQ(overlap.second, 3);
}
