//===- GroupLayoutTest.cpp - Where a group's parameters lie ---------------===//

#include "fsdp/Plan/GroupLayout.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace fsdp::plan;

using Shapes = std::vector<std::vector<int64_t>>;

/// Checks what holds for every layout: pieces are in order, within the shard, and together they are
/// the parameter.
static void expectComplete(const GroupLayout &layout, const Shapes &shapes) {
  ASSERT_EQ(layout.parameters.size(), shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    int64_t elements =
        std::accumulate(shapes[i].begin(), shapes[i].end(), int64_t(1), std::multiplies<>());
    int64_t next = 0;
    int64_t lastRank = -1;
    for (const Piece &piece : layout.parameters[i].pieces) {
      EXPECT_EQ(piece.first, next);
      EXPECT_GT(int64_t(piece.rank), lastRank);
      EXPECT_LE(piece.shardOffset + piece.count, layout.shardElements);
      next = piece.first + piece.count;
      lastRank = piece.rank;
    }
    EXPECT_EQ(next, elements) << "parameter " << i;
  }
}

// A parameter that crosses the cut has one piece on each side.
TEST(GroupLayout, FlatCutsAParameter) {
  Shapes shapes = {{10}, {30}};
  GroupLayout layout = layOutGroup(Layout::Flat, shapes, 2, 16);
  expectComplete(layout, shapes);
  EXPECT_EQ(layout.parameters[0].offset, 0);
  EXPECT_EQ(layout.parameters[1].offset, 16); // 10 rounded up to 16
  EXPECT_EQ(layout.shardElements, 32);        // 16 + 32, rounded up to 2 * 16, halved
  ASSERT_EQ(layout.parameters[1].pieces.size(), 2u);
  EXPECT_EQ(layout.parameters[1].pieces[0].count, 16);
  EXPECT_EQ(layout.parameters[1].pieces[0].shardOffset, 16);
  EXPECT_EQ(layout.parameters[1].pieces[1].rank, 1u);
  EXPECT_EQ(layout.parameters[1].pieces[1].first, 16);
  EXPECT_EQ(layout.parameters[1].pieces[1].count, 14);
  EXPECT_EQ(layout.parameters[1].pieces[1].shardOffset, 0);
}

TEST(GroupLayout, FlatOnOneRankIsWhole) {
  Shapes shapes = {{3, 5}, {}, {7}};
  GroupLayout layout = layOutGroup(Layout::Flat, shapes, 1, 16);
  expectComplete(layout, shapes);
  EXPECT_EQ(layout.shardElements, 48);
  EXPECT_EQ(layout.gatheredElements(), 48);
}

TEST(GroupLayout, FlatIsCompleteOnManyRanks) {
  Shapes shapes = {{129, 3}, {1}, {}, {64, 64}, {5}};
  for (unsigned ranks : {1, 2, 3, 4, 7, 64})
    expectComplete(layOutGroup(Layout::Flat, shapes, ranks, 16), shapes);
}

// torch.chunk(5 rows, 4): 2, 2, 1 and nothing; every rank has room for 2 rows.
TEST(GroupLayout, PerParamChunksRowsAsTorchDoes) {
  Shapes shapes = {{5, 3}, {8}};
  GroupLayout layout = layOutGroup(Layout::PerParam, shapes, 4, 16);
  expectComplete(layout, shapes);
  EXPECT_EQ(layout.shardElements, 6 + 2);
  EXPECT_EQ(layout.parameters[0].chunkElements, 6);
  ASSERT_EQ(layout.parameters[0].pieces.size(), 3u);
  EXPECT_EQ(layout.parameters[0].pieces[2].count, 3);
  EXPECT_EQ(layout.parameters[1].offset, 6);
  EXPECT_EQ(layout.parameters[1].pieces[3].shardOffset, 6);
}

TEST(GroupLayout, PerParamScalarIsOneRow) {
  Shapes shapes = {{}};
  GroupLayout layout = layOutGroup(Layout::PerParam, shapes, 2, 16);
  expectComplete(layout, shapes);
  EXPECT_EQ(layout.shardElements, 1);
  EXPECT_EQ(layout.parameters[0].pieces.size(), 1u);
}

TEST(GroupLayout, PerParamIsCompleteOnManyRanks) {
  Shapes shapes = {{129, 3}, {1}, {64, 64}, {5}, {2, 2, 2}};
  for (unsigned ranks : {1, 2, 3, 4, 7, 64})
    expectComplete(layOutGroup(Layout::PerParam, shapes, ranks, 16), shapes);
}

/// The elements of parameter `index` of a rank's shard, in their order there; -1: padding.
static std::vector<int64_t> elementsOf(const GroupLayout &layout, unsigned rank, size_t index) {
  const ParameterPlace &place = layout.parameters[index];
  std::vector<int64_t> elements(place.chunkElements, -1);
  for (const Piece &piece : place.pieces)
    for (int64_t i = 0, run = piece.count / place.runs; piece.rank == rank && i < piece.count; ++i)
      elements[piece.shardOffset - place.offset + i] =
          piece.first + i / run * place.runStride + i % run;
  return elements;
}

// A rank holds consecutive columns of each row, or, merged with the rank behind it, both's.
TEST(GroupLayout, PerParamCutsAnyDimension) {
  Shapes shapes = {{3}, {2, 8, 2}, {2, 4}};
  const std::vector<int64_t> dims = {0, 1, 1};
  GroupLayout layout = layOutGroup(Layout::PerParam, shapes, 4, 16, dims);
  EXPECT_EQ(layout.shardElements, 1 + 8 + 2);
  using Elements = std::vector<int64_t>;
  EXPECT_EQ(elementsOf(layout, 0, 1), (Elements{0, 1, 2, 3, 16, 17, 18, 19}));
  EXPECT_EQ(elementsOf(layout, 3, 1), (Elements{12, 13, 14, 15, 28, 29, 30, 31}));
  EXPECT_EQ(elementsOf(layout, 2, 2), (Elements{2, 6}));
  EXPECT_EQ(elementsOf(layout, 3, 0), (Elements{-1}));
  GroupLayout merged = mergeRanks(layout, 2);
  EXPECT_EQ(merged.shardElements, 2 * layout.shardElements);
  EXPECT_EQ(elementsOf(merged, 1, 1),
            (Elements{8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31}));
  EXPECT_EQ(elementsOf(merged, 0, 2), (Elements{0, 1, 4, 5}));
}

// The larger parts lie one after another as the smaller ones did: what was gathered over 4 ranks
// is, gathered over 2, the same.
TEST(GroupLayout, MergedFlatRanksGatherTheSame) {
  Shapes shapes = {{10}, {30}, {3, 50}};
  GroupLayout layout = layOutGroup(Layout::Flat, shapes, 4, 16), merged = mergeRanks(layout, 2);
  expectComplete(merged, shapes);
  EXPECT_EQ(merged.ranks, 2u);
  EXPECT_EQ(merged.gatheredElements(), layout.gatheredElements());
  for (size_t i = 0; i < shapes.size(); ++i) {
    const ParameterPlace &place = merged.parameters[i];
    EXPECT_EQ(place.offset, layout.parameters[i].offset);
    for (const Piece &piece : place.pieces)
      EXPECT_EQ(piece.rank * merged.shardElements + piece.shardOffset, place.offset + piece.first);
  }
}

// 5 rows over 4 ranks are 2, 2, 1 and 0; merged in pairs 4 and 1, where over 2 ranks by themselves
// they would be 3 and 2. FSDP2 cuts what it has gathered, with the padding.
TEST(GroupLayout, MergedPerParamRanksKeepTheirPadding) {
  Shapes shapes = {{5, 3}, {4}};
  GroupLayout merged = mergeRanks(layOutGroup(Layout::PerParam, shapes, 4, 1), 2);
  expectComplete(merged, shapes);
  EXPECT_EQ(merged.shardElements, 4 * 3 + 2);
  ASSERT_EQ(merged.parameters[0].pieces.size(), 2u);
  EXPECT_EQ(merged.parameters[0].chunkElements, 12);
  EXPECT_EQ(merged.parameters[0].pieces[0].count, 12);
  EXPECT_EQ(merged.parameters[0].pieces[1].count, 3);
  EXPECT_EQ(merged.parameters[1].offset, 12);
  EXPECT_EQ(merged.parameters[1].pieces[1].shardOffset, 12);
  EXPECT_EQ(merged.parameters[1].pieces[1].first, 2);
}

TEST(GroupLayout, MergedRanksAreComplete) {
  Shapes shapes = {{7, 3}, {}, {1}, {129}, {2, 2, 2}};
  for (Layout layout : {Layout::Flat, Layout::PerParam})
    for (unsigned ranks : {2u, 4u, 6u, 12u})
      for (unsigned merged = 1; merged <= ranks; ++merged)
        if (ranks % merged == 0)
          expectComplete(mergeRanks(layOutGroup(layout, shapes, ranks, 16), merged), shapes);
}
