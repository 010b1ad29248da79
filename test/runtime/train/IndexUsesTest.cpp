//===- IndexUsesTest.cpp - Tokens and targets out of range -----------------===//

#include "../executor/PlanBuilder.h"
#include "Files.h"
#include "data/BatchReader.h"

#include <gtest/gtest.h>

#include <limits>

using namespace fsdp::rt;
using namespace fsdp::test;

namespace {

/// Token inputs of 2 x 3, an embedding of `words` rows and a loss over `classes`.
struct Language {
  PlanBuilder builder;
  uint32_t tokens = builder.addValue(FSDP_I64, {2, 3}),
           targets = builder.addValue(FSDP_I64, {2, 3});

  Language(int64_t words, int64_t classes) {
    builder.addInput("tokens", tokens);
    builder.addInput("targets", targets);
    uint32_t table = builder.addValue(FSDP_F32, {words, 4});
    uint32_t rows = builder.addValue(FSDP_F32, {2, 3, 4});
    fsdp_entry &embedding = builder.call(
        "embedding", "", {value(table), value(tokens), integer(-1), boolean(false), boolean(false)},
        {rows});
    embedding.module = builder.addString("words");
    uint32_t flat = builder.addValue(FSDP_I64, {6}, builder.offsetOf(targets));
    builder.view("view", "", {value(targets), integers({-1})}, {flat});
    uint32_t logs = builder.addValue(FSDP_F32, {6, classes});
    loss = builder.addValue(FSDP_F32, {});
    uint32_t weight = builder.addValue(FSDP_F32, {});
    builder.call("nll_loss_forward", "",
                 {value(logs), value(flat), none(), integer(1), integer(-100)}, {loss, weight});
  }
  uint32_t loss;
};

/// What is said of a batch of the tokens in `file`.
std::string check(Language &language, const std::vector<int64_t> &file, int64_t step = 0) {
  PlanView plan(language.builder.finish(language.loss));
  std::vector<IndexUse> uses = findIndexUses(plan);
  std::vector<InputShape> shapes = *planInputs(plan);
  Folder folder;
  auto reader =
      openData({{folder.write("t.bin", rawBytes(file))}, TokenType::I64, {}, 0, 1}, shapes);
  EXPECT_TRUE(reader.ok()) << reader.status().message();
  std::vector<int64_t> tokens(6), targets(6);
  std::vector<std::span<std::byte>> inputs{std::as_writable_bytes(std::span(tokens)),
                                           std::as_writable_bytes(std::span(targets))};
  EXPECT_TRUE((*reader)->fill(step, inputs).ok());
  std::string message = checkIndices(uses, shapes, inputs, **reader, step).message();
  if (size_t place = message.find(folder.path("")); place != std::string::npos)
    message.erase(place, folder.path("").size());
  return message;
}

/// A loss over 50 classes whose lookup a generated kernel holds (fsdp-fuse).
struct SplitLoss {
  PlanBuilder builder;
  uint32_t targets = builder.addValue(FSDP_I64, {6}), loss = 0;

  SplitLoss() { builder.addInput("targets", targets); }
  /// The kernel's indices are `left` with 0 in place of negative numbers. The targets of the loss
  /// are `left` with 0 in place of all others.
  void addLoss(uint32_t left, int64_t ignored) {
    uint32_t low = builder.addValue(FSDP_I64, {6}), high = builder.addValue(FSDP_I64, {6});
    builder.call("clamp_min", "", {value(left), integer(0)}, {low});
    builder.call("clamp_max", "", {value(left), integer(0)}, {high});
    uint32_t column = builder.addValue(FSDP_I64, {6, 1}, builder.offsetOf(low));
    builder.view("unsqueeze", "", {value(low), integer(1)}, {column});
    uint32_t logits = builder.addValue(FSDP_F32, {6, 50}),
             picked = builder.addValue(FSDP_F32, {6, 1});
    builder.kernel(+[](void *const *, int64_t, int64_t) {}, 1, {logits, column}, {picked});
    loss = builder.addValue(FSDP_F32, {});
    uint32_t weight = builder.addValue(FSDP_F32, {});
    builder.call("nll_loss_forward", "",
                 {value(picked), value(high), none(), integer(1), integer(ignored)},
                 {loss, weight});
  }
};

/// Whether the kernel, and the loss behind it, have a target of the batch out of range.
std::pair<bool, bool> findBad(const std::vector<IndexUse> &uses,
                              const std::vector<int64_t> &batch) {
  auto isBad = [&](const IndexUse &use) {
    return findBadIndex(use, std::as_bytes(std::span(batch))).has_value();
  };
  return {isBad(uses[0]), isBad(uses[1])};
}

} // namespace

// The value, its sample and place, the input, the file and whoever takes it are named.
TEST(IndexUses, NamesTokensOutOfTheVocabulary) {
  Language language(40, 50);
  std::vector<int64_t> file(14, 39);
  EXPECT_EQ(check(language, file), "");
  file[10] = 40; // sample 3, whose second target it is not yet
  EXPECT_EQ(check(language, file, 1),
            "'t.bin': element 1 of sample 3 of input 'tokens' is 40, expected 0 to 39 by "
            "aten::embedding in module \"words\"");
  file[10] = -1;
  EXPECT_NE(check(language, file, 1).find("is -1, expected 0 to 39"), std::string::npos);
}

// A loss has classes, seen through views, and an index that it ignores.
TEST(IndexUses, NamesTargetsThatAreNoClass) {
  Language language(1000, 50);
  std::vector<int64_t> file(7, 49);
  file[6] = 50;
  EXPECT_EQ(check(language, file),
            "'t.bin': element 2 of sample 1 of input 'targets' is 50, expected 0 to 49 by "
            "aten::nll_loss_forward in module \"\"");
  file[6] = -100;
  EXPECT_EQ(check(language, file), "");
}

// The kernel has no index above its columns, and the loss none below 0 but the one that it ignores.
TEST(IndexUses, FollowsClampedTargetsIntoKernels) {
  SplitLoss step;
  step.addLoss(step.targets, -100);
  PlanView plan(step.builder.finish(step.loss));
  std::vector<IndexUse> uses = findIndexUses(plan);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(findBad(uses, {0, 49, -100, 49, 7, 3}), std::pair(false, false));
  EXPECT_EQ(findBad(uses, {0, 49, -100, 50, 7, 3}), std::pair(true, false));
  EXPECT_EQ(findBad(uses, {0, 49, -100, -1, 7, 3}), std::pair(false, true));
}

// A class that a loss ignores is another number for the kernel and the loss; in the data it is no
// error.
TEST(IndexUses, FollowsAnIgnoredClassIntoKernels) {
  SplitLoss step;
  PlanBuilder &builder = step.builder;
  const int64_t least = std::numeric_limits<int64_t>::min();
  uint32_t mask = builder.addValue(FSDP_BOOL, {6}), left = builder.addValue(FSDP_I64, {6});
  builder.call("eq", "Scalar", {value(step.targets), integer(255)}, {mask});
  builder.call("masked_fill", "Scalar", {value(step.targets), value(mask), integer(least)}, {left});
  step.addLoss(left, least);
  PlanView plan(builder.finish(step.loss));
  std::vector<IndexUse> uses = findIndexUses(plan);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(findBad(uses, {0, 49, 255, 49, 7, 3}), std::pair(false, false));
  EXPECT_EQ(findBad(uses, {0, 49, 255, 50, 7, 3}), std::pair(true, false));
  EXPECT_EQ(findBad(uses, {0, 49, 255, -1, 7, 3}), std::pair(false, true));
  EXPECT_EQ(findBad(uses, {0, 49, 255, least, 7, 3}), std::pair(false, true));
}

// Only what is read counts: here all but the last column.
TEST(IndexUses, LooksAtTheElementsThatAreRead) {
  PlanBuilder builder;
  uint32_t tokens = builder.addValue(FSDP_I64, {2, 3});
  builder.addInput("tokens", tokens);
  uint32_t table = builder.addValue(FSDP_F32, {8, 4}), rows = builder.addValue(FSDP_F32, {2, 2, 4});
  uint32_t most = builder.addStrided(FSDP_I64, {2, 2}, {3, 1}, builder.offsetOf(tokens));
  builder.view("slice", "Tensor", {value(tokens), integer(1), integer(0), integer(2), integer(1)},
               {most});
  builder.call("embedding", "",
               {value(table), value(most), integer(-1), boolean(false), boolean(false)}, {rows});
  PlanView plan(builder.finish(rows));
  std::vector<IndexUse> uses = findIndexUses(plan);
  ASSERT_EQ(uses.size(), 1u);
  std::vector<int64_t> batch{0, 7, 99, 3, 4, 99};
  EXPECT_FALSE(findBadIndex(uses[0], std::as_bytes(std::span(batch))));
  batch[4] = 8;
  std::optional<BadIndex> bad = findBadIndex(uses[0], std::as_bytes(std::span(batch)));
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->value, 8);
  EXPECT_EQ(bad->element, 4);
}

// x[i, j]: each index has a dimension of its own, and may count from its end.
TEST(IndexUses, FollowsListsOfIndices) {
  PlanBuilder builder;
  uint32_t rows = builder.addValue(FSDP_I64, {2}), columns = builder.addValue(FSDP_I64, {2});
  builder.addInput("rows", rows);
  builder.addInput("columns", columns);
  uint32_t table = builder.addValue(FSDP_F32, {8, 4}), found = builder.addValue(FSDP_F32, {2});
  builder.call("index", "Tensor", {value(table), values({rows, columns})}, {found});
  PlanView plan(builder.finish(found));
  std::vector<IndexUse> uses = findIndexUses(plan);
  ASSERT_EQ(uses.size(), 2u);
  std::vector<int64_t> batch{-4, 3};
  for (const IndexUse &use : uses)
    EXPECT_FALSE(findBadIndex(use, std::as_bytes(std::span(batch))));
  batch = {0, -5};
  EXPECT_FALSE(findBadIndex(uses[0], std::as_bytes(std::span(batch))));
  std::optional<BadIndex> bad = findBadIndex(uses[1], std::as_bytes(std::span(batch)));
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->value, -5);
}

// The index of a scatter is checked against the dimension that it writes.
TEST(IndexUses, FollowsScatters) {
  PlanBuilder builder;
  uint32_t classes = builder.addValue(FSDP_I64, {3, 1});
  builder.addInput("classes", classes);
  uint32_t zeros = builder.addValue(FSDP_I64, {3, 5}), hot = builder.addValue(FSDP_I64, {3, 5});
  builder.call("scatter", "value", {value(zeros), integer(-1), value(classes), integer(1)}, {hot});
  PlanView plan(builder.finish(hot));
  std::vector<IndexUse> uses = findIndexUses(plan);
  ASSERT_EQ(uses.size(), 1u);
  std::vector<int64_t> batch{0, 4, 5};
  std::optional<BadIndex> bad = findBadIndex(uses[0], std::as_bytes(std::span(batch)));
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->element, 2);
}
