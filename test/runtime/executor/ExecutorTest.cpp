//===- ExecutorTest.cpp - Plans of one rank --------------------------------===//

#include "../Optimizers.h"
#include "ExecutorFixture.h"

#include <ATen/Functions.h>

using namespace fsdp::test;
using fsdp::rt::StepResults;

namespace {
/// y = x w, loss = sum(y), with the gradient of w: what every step has.
struct MatmulChain {
  PlanBuilder builder;
  uint32_t x, wt, loss;
  int64_t gradient;

  MatmulChain() {
    uint32_t group = builder.addGroup("", "w", {16, 8});
    uint32_t w = builder.addValue(FSDP_F32, {16, 8}, builder.groupTable[group].shard);
    x = builder.addValue(FSDP_F32, {4, 8});
    builder.addInput("x", x);
    wt = builder.addStrided(FSDP_F32, {8, 16}, {1, 8}, builder.offsetOf(w));
    builder.view("t", "", {value(w)}, {wt});
    uint32_t y = builder.addValue(FSDP_F32, {4, 16});
    builder.call("mm", "", {value(x), value(wt)}, {y});
    uint32_t h = builder.addValue(FSDP_F32, {4, 16});
    builder.call("relu", "", {value(y)}, {h});
    loss = builder.addValue(FSDP_F32, {});
    builder.call("sum", "", {value(h), none()}, {loss});
    uint32_t one = builder.addValue(FSDP_F32, {});
    builder.call("ones_like", "",
                 {value(loss), none(), none(), device(), boolean(false), memoryFormat(1)}, {one});
    uint32_t spread = builder.addStrided(FSDP_F32, {4, 16}, {0, 0}, builder.offsetOf(one));
    builder.view("expand", "", {value(one), integers({4, 16}), boolean(false)}, {spread});
    uint32_t dh = builder.addValue(FSDP_F32, {4, 16});
    builder.call("threshold_backward", "", {value(spread), value(h), integer(0)}, {dh});
    uint32_t dht = builder.addStrided(FSDP_F32, {16, 4}, {1, 16}, builder.offsetOf(dh));
    builder.view("t", "", {value(dh)}, {dht});
    gradient = builder.allocate(16 * 8 * 4);
    uint32_t dw = builder.addValue(FSDP_F32, {16, 8}, gradient);
    builder.call("mm", "", {value(dht), value(x)}, {dw});
    builder.update(group, gradient);
  }
};
} // namespace

// A matmul chain gives torch's numbers in the first, measuring, step and in later ones.
TEST(ExecutorTest, MatmulChainForwardBackward) {
  MatmulChain chain;
  SingleRank rank(chain.builder.finish(chain.loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  at::Tensor x = rank.tensor(chain.builder.offsetOf(chain.x), {4, 8});
  at::Tensor w = rank.tensor(chain.builder.groupTable[0].shard, {16, 8});
  at::Tensor reference = at::randn({16, 8});
  w.copy_(reference);
  for (int64_t step = 1; step <= 4; ++step) {
    x.copy_(at::randn({4, 8}));
    at::Tensor h = at::relu(at::mm(x, reference.t()));
    at::Tensor dh = at::threshold_backward(at::ones({}).expand({4, 16}), h, 0);
    at::Tensor dw = at::mm(dh.t(), x);
    StepResults results = rank.step(step);
    EXPECT_EQ(results.loss, h.sum().item<float>());
    EXPECT_TRUE(at::equal(rank.tensor(chain.gradient, {16, 8}), dw));
    EXPECT_NEAR(results.partialNorm, dw.to(at::kDouble).square().sum().item<double>(), 1e-9);
    reference.add_(dw, -0.1);
    EXPECT_TRUE(at::equal(w, reference));
  }
}

// From the second step on every allocation is served where planned and nothing is copied.
TEST(ExecutorTest, SteadyStateAllocatesNothing) {
  MatmulChain chain;
  SingleRank rank(chain.builder.finish(chain.loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  rank.tensor(chain.builder.offsetOf(chain.x), {4, 8}).copy_(at::randn({4, 8}));
  rank.step(1);
  EXPECT_GT(rank.executor().statistics().copiedBytes, 0);
  EXPECT_GT(rank.executor().statistics().fallbackAllocations, 0);
  for (int64_t step = 2; step <= 3; ++step) {
    rank.step(step);
    EXPECT_EQ(rank.executor().statistics().plannedAllocations, 6);
    EXPECT_EQ(rank.executor().statistics().fallbackAllocations, 0);
    EXPECT_TRUE(rank.executor().statistics().fallbacksByOperator.empty());
    EXPECT_EQ(rank.executor().statistics().copiedBytes, 0);
  }
}

// Large results are at their places from the first step on, also where an operator (sort of what is
// not contiguous) has temporaries of a result's size.
TEST(ExecutorTest, LargeResultsArePlacedAtOnce) {
  constexpr int64_t kRows = 64, kColumns = 1 << 18;
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_F32, {kRows, kColumns}), loss = builder.addValue(FSDP_F32, {});
  builder.addInput("x", x);
  uint32_t negated = builder.addValue(FSDP_F32, {kRows, kColumns});
  builder.call("neg", "", {value(x)}, {negated});
  uint32_t sorted = builder.addValue(FSDP_F32, {kRows, kColumns}),
           order = builder.addValue(FSDP_I64, {kRows, kColumns});
  builder.call("sort", "", {value(negated), integer(0), boolean(false)}, {sorted, order});
  builder.call("sum", "", {value(sorted), none()}, {loss});
  SingleRank rank(builder.finish(loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  at::Tensor input = rank.tensor(builder.offsetOf(x), {kRows, kColumns});
  for (int64_t step = 1; step <= 2; ++step) {
    input.copy_(at::randn({kRows, kColumns}));
    rank.step(step);
    auto [values, indices] = at::sort(-input, 0);
    EXPECT_TRUE(at::equal(rank.tensor(builder.offsetOf(sorted), {kRows, kColumns}), values));
    EXPECT_TRUE(
        at::equal(rank.tensor(builder.offsetOf(order), {kRows, kColumns}, at::kLong), indices));
    // Of the first step only the three results.
    EXPECT_GE(rank.executor().statistics().plannedAllocations, 3);
  }
  EXPECT_EQ(rank.executor().statistics().fallbackAllocations, 0);
  EXPECT_EQ(rank.executor().statistics().copiedBytes, 0);
}

// Temporaries inside an operator are measured and placed in the scratch area.
TEST(ExecutorTest, TemporariesArePlaced) {
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_F32, {64, 32}), loss = builder.addValue(FSDP_F32, {});
  builder.addInput("x", x);
  // var of a transposed tensor, and a norm: both allocate inside.
  uint32_t normalized = builder.addValue(FSDP_F32, {64, 32});
  builder.call("_softmax", "", {value(x), integer(0), boolean(false)}, {normalized});
  uint32_t sorted = builder.addValue(FSDP_F32, {64, 32}),
           order = builder.addValue(FSDP_I64, {64, 32});
  builder.call("sort", "", {value(normalized), integer(0), boolean(false)}, {sorted, order});
  builder.call("sum", "", {value(sorted), none()}, {loss});
  SingleRank rank(builder.finish(loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  at::Tensor input = rank.tensor(builder.offsetOf(x), {64, 32});
  for (int64_t step = 1; step <= 3; ++step) {
    input.copy_(at::randn({64, 32}));
    rank.step(step);
    auto [expected, indices] = at::sort(at::softmax(input, 0), 0);
    EXPECT_TRUE(at::equal(rank.tensor(builder.offsetOf(sorted), {64, 32}), expected));
    EXPECT_TRUE(at::equal(rank.tensor(builder.offsetOf(order), {64, 32}, at::kLong), indices));
  }
  EXPECT_GT(rank.executor().statistics().scratchBytes, 0);
  EXPECT_EQ(rank.executor().statistics().fallbackAllocations, 0);
  EXPECT_EQ(rank.executor().statistics().copiedBytes, 0);
}

// A result that the operator does not allocate as one piece of its own is copied to its place, and
// the bytes are counted.
TEST(ExecutorTest, MisplacedResultsAreCopied) {
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_F32, {8}), same = builder.addValue(FSDP_F32, {8});
  uint32_t loss = builder.addValue(FSDP_F32, {});
  builder.addInput("x", x);
  // contiguous returns its argument.
  builder.call("contiguous", "", {value(x), memoryFormat(0)}, {same});
  builder.call("sum", "", {value(same), none()}, {loss});
  SingleRank rank(builder.finish(loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  at::Tensor input = rank.tensor(builder.offsetOf(x), {8});
  for (int64_t step = 1; step <= 3; ++step) {
    input.fill_(static_cast<double>(step));
    EXPECT_EQ(rank.step(step).loss, 8.0 * static_cast<double>(step));
    EXPECT_TRUE(at::equal(rank.tensor(builder.offsetOf(same), {8}), input));
  }
  EXPECT_EQ(rank.executor().statistics().copiedBytes, 32);
}

// A result with other strides than the plan's is copied to its place in every step, and counted by
// operator and module; what views and reads it sees the plan's strides.
TEST(ExecutorTest, ResultsOfOtherStridesAreRelaid) {
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_F32, {2, 3}), loss = builder.addValue(FSDP_F32, {});
  builder.addInput("x", x);
  uint32_t y = builder.addStrided(FSDP_F32, {2, 3}, {1, 2});
  uint32_t module = builder.addString("layers.0");
  builder.call("neg", "", {value(x)}, {y}).module = module;
  uint32_t row = builder.addStrided(FSDP_F32, {3}, {2}, builder.offsetOf(y) + 4);
  builder.view("select", "int", {value(y), integer(0), integer(1)}, {row});
  builder.call("sum", "", {value(row), none()}, {loss});
  SingleRank rank(builder.finish(loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  for (int64_t step = 1; step <= 3; ++step) {
    at::Tensor values = at::arange(6, at::kFloat).view({2, 3}).mul(step);
    rank.tensor(builder.offsetOf(x), {2, 3}).copy_(values);
    EXPECT_EQ(rank.step(step).loss, -12.0 * static_cast<double>(step));
    EXPECT_TRUE(at::equal(rank.tensor(builder.offsetOf(y), {3, 2}), values.t().neg()));
    const auto &relaid = rank.executor().statistics().relaid;
    ASSERT_EQ(relaid.size(), 1u);
    EXPECT_EQ(relaid.begin()->first, "aten::neg in module \"layers.0\"");
    EXPECT_EQ(relaid.begin()->second.results, 1);
    EXPECT_EQ(relaid.begin()->second.bytes, 24);
  }
}

// A temporary whose size depends on data comes from the ordinary allocator, counted by operator.
TEST(ExecutorTest, FallbacksAreCountedByOperator) {
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_F32, {64}), mask = builder.addValue(FSDP_BOOL, {64});
  uint32_t filled = builder.addValue(FSDP_F32, {64}), loss = builder.addValue(FSDP_F32, {});
  builder.addInput("mask", mask);
  uint32_t one = builder.addConstant({}, {1});
  builder.call("index_put", "", {value(x), values({mask}), value(one), boolean(true)}, {filled});
  builder.call("sum", "", {value(filled), none()}, {loss});
  SingleRank rank(builder.finish(loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  at::Tensor input = rank.tensor(builder.offsetOf(mask), {64}, at::kBool);
  for (int64_t step = 1; step <= 3; ++step) {
    input.zero_();
    input.slice(0, 0, 8 * step).fill_(true);
    EXPECT_EQ(rank.step(step).loss, 8.0 * static_cast<double>(step));
  }
  const fsdp::rt::ExecutorStatistics &statistics = rank.executor().statistics();
  EXPECT_GT(statistics.fallbackAllocations, 0);
  ASSERT_EQ(statistics.fallbacksByOperator.size(), 1u);
  EXPECT_EQ(statistics.fallbacksByOperator.at("aten::index_put"), statistics.fallbackAllocations);
  // With the measured size again, nothing falls back.
  input.zero_();
  input.slice(0, 0, 8).fill_(true);
  rank.step(4);
  EXPECT_EQ(rank.executor().statistics().fallbackAllocations, 0);
}

// Lists of tensors, optional tensors and numbers arrive as the schema wants them.
TEST(ExecutorTest, Lists) {
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_F32, {4, 8}), rows = builder.addValue(FSDP_I64, {2});
  builder.addInput("x", x);
  builder.addInput("rows", rows);
  uint32_t doubled = builder.addValue(FSDP_F32, {8, 8});
  builder.call("cat", "", {values({x, x}), integer(0)}, {doubled});
  uint32_t picked = builder.addValue(FSDP_F32, {4, 2});
  builder.call("index", "Tensor", {value(x), values({-1, rows})}, {picked});
  uint32_t first = builder.addValue(FSDP_F32, {4, 4}), second = builder.addValue(FSDP_F32, {4, 4});
  builder.call("split_copy", "Tensor", {value(x), integer(4), integer(1)}, {first, second});
  uint32_t left = builder.addStrided(FSDP_F32, {4, 4}, {8, 1}, builder.offsetOf(x));
  uint32_t right = builder.addStrided(FSDP_F32, {4, 4}, {8, 1}, builder.offsetOf(x) + 16);
  builder.view("split", "Tensor", {value(x), integer(4), integer(1)}, {left, right});
  uint32_t product = builder.addValue(FSDP_F32, {4, 4});
  builder.call("mul", "Tensor", {value(left), value(right)}, {product});
  uint32_t means = builder.addValue(FSDP_F32, {8}), loss = builder.addValue(FSDP_F32, {});
  builder.call("mean", "dim", {value(x), integers({0}), boolean(false), none()}, {means});
  builder.call("sum", "", {value(product), none()}, {loss});
  SingleRank rank(builder.finish(loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  at::Tensor input = rank.tensor(builder.offsetOf(x), {4, 8});
  rank.tensor(builder.offsetOf(rows), {2}, at::kLong).copy_(at::tensor({5, 1}));
  auto read = [&](uint32_t index, at::IntArrayRef sizes) {
    return rank.tensor(builder.offsetOf(index), sizes);
  };
  for (int64_t step = 1; step <= 3; ++step) {
    input.copy_(at::randn({4, 8}));
    rank.step(step);
    EXPECT_TRUE(at::equal(read(doubled, {8, 8}), at::cat({input, input})));
    EXPECT_TRUE(at::equal(read(picked, {4, 2}), input.index_select(1, at::tensor({5, 1}))));
    EXPECT_TRUE(at::equal(read(first, {4, 4}), input.narrow(1, 0, 4)));
    EXPECT_TRUE(at::equal(read(second, {4, 4}), input.narrow(1, 4, 4)));
    EXPECT_TRUE(
        at::equal(read(product, {4, 4}), at::mul(input.narrow(1, 0, 4), input.narrow(1, 4, 4))));
    EXPECT_TRUE(at::equal(read(means, {8}), input.mean(0)));
  }
  EXPECT_EQ(rank.executor().statistics().fallbackAllocations, 0);
}

// Undefined tensors are arguments and results like any other; so are empty ones.
TEST(ExecutorTest, UndefinedAndEmptyTensors) {
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_F32, {4, 8}), bias = builder.addUndefined();
  builder.addInput("x", x);
  uint32_t y = builder.addValue(FSDP_F32, {4, 8}), mean = builder.addValue(FSDP_F32, {4, 1});
  uint32_t rstd = builder.addValue(FSDP_F32, {4, 1}), dx = builder.addValue(FSDP_F32, {4, 8});
  builder.call("native_layer_norm", "", {value(x), integers({8}), none(), value(bias), real(1e-5)},
               {y, mean, rstd});
  builder.call("native_layer_norm_backward", "",
               {value(x), value(x), integers({8}), value(mean), value(rstd), none(), none(),
                booleans({1, 0, 0})},
               {dx, -1, -1});
  uint32_t nothing = builder.addValue(FSDP_F32, {0, 8}), all = builder.addValue(FSDP_F32, {4, 8});
  builder.call("slice_copy", "Tensor", {value(x), integer(0), integer(4)}, {nothing});
  builder.call("cat", "", {values({nothing, y}), integer(0)}, {all});
  uint32_t loss = builder.addValue(FSDP_F32, {});
  builder.call("sum", "", {value(all), none()}, {loss});
  SingleRank rank(builder.finish(loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  at::Tensor input = rank.tensor(builder.offsetOf(x), {4, 8});
  for (int64_t step = 1; step <= 3; ++step) {
    input.copy_(at::randn({4, 8}));
    rank.step(step);
    auto [expected, expectedMean, expectedRstd] = at::native_layer_norm(input, {8}, {}, {}, 1e-5);
    auto [expectedGradient, none1, none2] = at::native_layer_norm_backward(
        input, input, {8}, expectedMean, expectedRstd, {}, {}, {true, false, false});
    EXPECT_TRUE(at::equal(rank.tensor(builder.offsetOf(all), {4, 8}), expected));
    EXPECT_TRUE(at::equal(rank.tensor(builder.offsetOf(dx), {4, 8}), expectedGradient));
  }
  EXPECT_EQ(rank.executor().statistics().fallbackAllocations, 0);
}

// Views by absolute place in a storage are taken from the plan.
TEST(ExecutorTest, AsStridedIsWhereThePlanSays) {
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_F32, {4, 4}), loss = builder.addValue(FSDP_F32, {});
  builder.addInput("x", x);
  uint32_t row = builder.addValue(FSDP_F32, {4}, builder.offsetOf(x) + 32);
  builder.view("select", "int", {value(x), integer(0), integer(2)}, {row});
  // Element 12 of the storage, from a view of it that begins at element 8.
  uint32_t last = builder.addValue(FSDP_F32, {4}, builder.offsetOf(x) + 48);
  builder.view("as_strided", "", {value(row), integers({4}), integers({1}), integer(12)}, {last});
  builder.call("sum", "", {value(last), none()}, {loss});
  SingleRank rank(builder.finish(loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  rank.tensor(builder.offsetOf(x), {4, 4}).copy_(at::arange(16).view({4, 4}));
  EXPECT_EQ(rank.step(1).loss, 12 + 13 + 14 + 15);
  EXPECT_EQ(rank.step(2).loss, 12 + 13 + 14 + 15);
}

// A number in a tensor's place is torch's wrapped number: it does not promote types.
TEST(ExecutorTest, WrappedNumbers) {
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_BF16, {4}), y = builder.addValue(FSDP_BF16, {4});
  builder.addInput("x", x);
  builder.call("mul", "Tensor", {value(x), real(2.5)}, {y});
  uint32_t z = builder.addValue(FSDP_BF16, {4}), loss = builder.addValue(FSDP_BF16, {});
  builder.call("add", "Tensor", {value(y), integer(3), integer(1)}, {z});
  builder.call("sum", "", {value(z), none()}, {loss});
  SingleRank rank(builder.finish(loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  rank.tensor(builder.offsetOf(x), {4}, at::kBFloat16).fill_(2);
  EXPECT_EQ(rank.step(1).loss, 32);
  EXPECT_EQ(rank.step(2).loss, 32);
}

// Trailing arguments that the plan leaves out take the schema's defaults.
TEST(ExecutorTest, DefaultArguments) {
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_F32, {4}), loss = builder.addValue(FSDP_F32, {});
  builder.addInput("x", x);
  builder.call("sum", "", {value(x)}, {loss});
  SingleRank rank(builder.finish(loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  rank.tensor(builder.offsetOf(x), {4}).fill_(2);
  EXPECT_EQ(rank.step(1).loss, 8);
}

// Copies between any two layouts, zeroing and constants.
TEST(ExecutorTest, CopiesZeroesAndConstants) {
  PlanBuilder builder;
  uint32_t c = builder.addConstant({2, 3}, {1, 2, 3, 4, 5, 6});
  uint32_t flat = builder.addValue(FSDP_F32, {2, 3});
  uint32_t columns = builder.addStrided(FSDP_F32, {2, 3}, {1, 2});
  uint32_t loss = builder.addValue(FSDP_F32, {});
  builder.copy(c, flat);
  builder.copy(c, columns);
  builder.zero(builder.offsetOf(flat) + 4, 8);
  builder.call("sum", "", {value(flat), none()}, {loss});
  SingleRank rank(builder.finish(loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  for (int64_t step = 1; step <= 2; ++step) {
    EXPECT_EQ(rank.step(step).loss, 1 + 4 + 5 + 6);
    at::Tensor transposed = rank.tensor(builder.offsetOf(columns), {3, 2});
    EXPECT_TRUE(at::equal(transposed, rank.tensor(builder.offsetOf(c), {2, 3}).t()));
  }
  EXPECT_EQ(rank.executor().statistics().copiedBytes, 48);
}

// The same seed, step, rank and position give the same numbers; another step or position others.
TEST(ExecutorTest, RandomDrawsAreDetermined) {
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_F32, {256}), loss = builder.addValue(FSDP_F32, {});
  builder.addInput("x", x);
  std::vector<uint32_t> drops;
  for (int64_t position : {0, 1, 0}) {
    uint32_t y = builder.addValue(FSDP_F32, {256}), mask = builder.addValue(FSDP_BOOL, {256});
    builder.call("native_dropout", "", {value(x), real(0.5), boolean(true)}, {y, mask}).rng =
        position;
    drops.push_back(y);
  }
  builder.call("sum", "", {value(drops[0]), none()}, {loss});
  SingleRank rank(builder.finish(loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  rank.tensor(builder.offsetOf(x), {256}).fill_(1);
  auto draw = [&](size_t i) { return rank.tensor(builder.offsetOf(drops[i]), {256}).clone(); };
  rank.step(1, 7);
  at::Tensor first = draw(0);
  EXPECT_TRUE(at::equal(first, draw(2)));
  EXPECT_FALSE(at::equal(first, draw(1)));
  rank.step(2, 7);
  EXPECT_FALSE(at::equal(first, draw(0)));
  rank.step(1, 8);
  EXPECT_FALSE(at::equal(first, draw(0)));
  rank.step(1, 7);
  EXPECT_TRUE(at::equal(first, draw(0)));
}

// Adam's state and updates carry over from step to step.
TEST(ExecutorTest, UpdatesKeepTheirState) {
  PlanBuilder builder;
  builder.plan.optimizer = makeOptimizer(FSDP_ADAMW, {{"lr", {0.1}}});
  uint32_t group = builder.addGroup("", "w", {4});
  int64_t gradient = builder.allocate(16);
  uint32_t g = builder.addValue(FSDP_F32, {4}, gradient), loss = builder.addValue(FSDP_F32, {});
  builder.addInput("g", g);
  builder.call("sum", "", {value(g), none()}, {loss});
  builder.update(group, gradient);
  SingleRank rank(builder.finish(loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  rank.tensor(gradient, {4}).fill_(2);
  EXPECT_EQ(rank.step(1).partialNorm, 16);
  rank.step(2);
  // The first moment of a constant gradient after two steps: g (1 - 0.9^2).
  EXPECT_FLOAT_EQ(rank.tensor(builder.groupTable[0].state[0], {4})[0].item<float>(), 2 * 0.19f);
}

// With a lag, step() returns the results of as many steps before, and finish() those that are left.
TEST(ExecutorTest, ResultsLag) {
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_F32, {4}), loss = builder.addValue(FSDP_F32, {});
  builder.addInput("x", x);
  builder.call("sum", "", {value(x)}, {loss});
  SingleRank rank(builder.finish(loss), {.lossLag = 2});
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  for (int64_t step = 1; step <= 4; ++step) {
    auto *input = reinterpret_cast<float *>(rank.executor().input(0).data());
    std::fill(input, input + 4, static_cast<float>(step));
    auto results = rank.executor().step({.step = step});
    ASSERT_TRUE(results.ok()) << results.status().message();
    ASSERT_EQ(results->has_value(), step > 2);
    if (step > 2) {
      EXPECT_EQ((*results)->step, step - 2);
      EXPECT_EQ((*results)->loss, 4.0 * static_cast<double>(step - 2));
    }
  }
  for (int64_t step : {3, 4}) {
    auto results = rank.executor().finish();
    ASSERT_TRUE(results.ok() && *results);
    EXPECT_EQ((*results)->step, step);
    EXPECT_EQ((*results)->loss, 4.0 * static_cast<double>(step));
  }
  EXPECT_FALSE(rank.executor().finish()->has_value());
}
