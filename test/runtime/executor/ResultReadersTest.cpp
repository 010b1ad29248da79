//===- ResultReadersTest.cpp - Until when a result is read ------------------===//

#include "executor/ResultReaders.h"
#include "ExecutorFixture.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

using namespace fsdp::test;
using namespace fsdp::rt;

namespace {

/// A group of 4 x 8 elements, an input of that size, and a loss.
struct Small {
  PlanBuilder builder;
  uint32_t group = builder.addGroup("", "w", {4, 8});
  uint32_t x = builder.addValue(FSDP_F32, {4, 8});
  uint32_t loss = builder.addValue(FSDP_F32, {});
  int64_t gradients = builder.allocate(4 * 8 * 4);

  explicit Small(unsigned ranks = 1) : builder() {
    builder.plan.world_size = ranks;
    builder.addInput("x", x);
  }
  uint32_t result(std::optional<int64_t> offset = {}) {
    return builder.addValue(FSDP_F32, {4, 8}, offset);
  }
  size_t negate(uint32_t from, uint32_t to) {
    builder.call("neg", "", {value(from)}, {to});
    return last();
  }
  size_t last() const { return builder.entryTable.size() - 1; }
  size_t readerOf(uint32_t value) {
    fsdp_plan &plan = builder.finish(loss);
    PlanView view(plan);
    return ResultReaders(view).lastReader(value);
  }
};

// Calls read values and views of them; what overwrites the bytes ends that.
TEST(ResultReaders, Calls) {
  Small small;
  uint32_t early = small.result(small.gradients), later = small.result(small.gradients);
  uint32_t halves = small.builder.addStrided(FSDP_F32, {4, 4}, {8, 1}, small.gradients);
  uint32_t shortLived = small.builder.addValue(FSDP_F32, {4, 4}), unused = small.result();
  small.negate(small.x, early);
  small.builder.view("narrow", "", {value(early), integer(1), integer(0), integer(4)}, {halves});
  small.builder.call("neg", "", {value(halves)}, {shortLived});
  size_t viewReader = small.last();
  small.negate(small.x, later);
  size_t laterReader = small.negate(later, unused);
  small.builder.call("sum", "", {value(shortLived), none()}, {small.loss});
  size_t sum = small.last();
  EXPECT_EQ(small.readerOf(early), viewReader);
  EXPECT_EQ(small.readerOf(later), laterReader);
  EXPECT_EQ(small.readerOf(shortLived), sum);
  EXPECT_EQ(small.readerOf(unused), 0u);
  EXPECT_EQ(small.readerOf(small.loss), ResultReaders::kEver);
}

// What leaves bytes between its elements overwrites nothing whole; a transposed result does.
TEST(ResultReaders, OnlyDenseResultsOverwrite) {
  for (bool dense : {false, true}) {
    Small small;
    uint32_t first = small.result(small.gradients), again = small.result(small.gradients);
    uint32_t over = dense ? small.builder.addStrided(FSDP_F32, {8, 4}, {1, 8}, small.gradients)
                          : small.builder.addStrided(FSDP_F32, {4, 4}, {8, 1}, small.gradients);
    uint32_t other = small.result();
    small.negate(small.x, first);
    small.negate(small.x, over);
    size_t reader = small.negate(again, other);
    EXPECT_EQ(small.readerOf(first), dense ? 0u : reader) << dense;
  }
}

// A copy into the layout of a group has a value of its own for the gradient's bytes.
TEST(ResultReaders, CopiesOfOtherValues) {
  Small small;
  uint32_t gradient = small.result(small.gradients);
  uint32_t part = small.builder.addStrided(FSDP_F32, {2, 8}, {8, 1}, small.gradients + 2 * 8 * 4);
  uint32_t inRanks = small.builder.addStrided(FSDP_F32, {2, 8}, {16, 1});
  small.negate(small.x, gradient);
  small.negate(small.x, small.result());
  small.builder.copy(part, inRanks);
  EXPECT_EQ(small.readerOf(gradient), small.last());
}

// A collective reads until it is waited for.
TEST(ResultReaders, Collectives) {
  Small small(2);
  int64_t reduced = small.builder.allocate(4 * 8 * 4);
  uint32_t gradient = small.result(small.gradients), after = small.result(small.gradients);
  small.negate(small.x, gradient);
  uint32_t handle = small.builder.reduceScatter(small.group, small.gradients, reduced);
  small.negate(small.x, small.result());
  small.builder.wait(handle);
  size_t wait = small.last();
  small.negate(small.x, after);
  EXPECT_EQ(small.readerOf(gradient), wait);
  EXPECT_EQ(small.readerOf(after), 0u);
}

// Updates read gradients and shards; the next step reads shards, too.
TEST(ResultReaders, Updates) {
  Small small;
  uint32_t gradient = small.result(small.gradients);
  uint32_t shard = small.result(small.builder.groupTable[small.group].shard);
  small.negate(small.x, gradient);
  small.negate(small.x, shard);
  small.builder.clip(1.0);
  small.builder.update(small.group, small.gradients);
  size_t update = small.last();
  small.negate(small.x, small.result());
  EXPECT_EQ(small.readerOf(gradient), update);
  EXPECT_EQ(small.readerOf(shard), ResultReaders::kEver);
}

// A chain writes the sum of two gradients, which only a copy of another value reads.
TEST(ResultReaders, ChainsWriteWhatCopiesRead) {
  constexpr int64_t kRows = 64, kColumns = 32;
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_F32, {kRows, kColumns});
  builder.addInput("x", x);
  uint32_t square = builder.addValue(FSDP_F32, {kRows, kColumns});
  uint32_t sum = builder.addValue(FSDP_F32, {kRows, kColumns});
  uint32_t source = builder.addValue(FSDP_F32, {kRows, kColumns}, builder.offsetOf(sum));
  uint32_t inRanks = builder.addValue(FSDP_F32, {kRows, kColumns});
  uint32_t loss = builder.addValue(FSDP_F32, {});
  builder.call("mul", "Tensor", {value(x), value(x)}, {square});
  builder.call("add", "Tensor", {value(square), value(x), integer(1)}, {sum});
  builder.copy(source, inRanks);
  builder.call("sum", "", {value(inRanks), none()}, {loss});
  fsdp_plan &plan = builder.finish(loss);
  SingleRank rank(plan, {.kernels = OperatorKernels::Fastest});
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  for (int64_t step = 1; step <= 3; ++step) {
    at::Tensor xs = at::randn({kRows, kColumns});
    rank.tensor(builder.offsetOf(x), xs.sizes()).copy_(xs);
    rank.step(step);
    EXPECT_TRUE(at::equal(rank.tensor(builder.offsetOf(inRanks), xs.sizes()), xs * xs + xs))
        << "step " << step;
  }
}

} // namespace
