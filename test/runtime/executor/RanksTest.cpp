//===- RanksTest.cpp - Plans of several ranks ------------------------------===//

#include "../Optimizers.h"
#include "ExecutorFixture.h"
#include "executor/OptimizerUpdate.h"
#include "watch/PlanLanes.h"

#include <ATen/Functions.h>

#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

using namespace fsdp::test;
using namespace fsdp::rt;

namespace {
/// Runs `body(rank, communicator)` on a thread per rank.
void onRanks(std::vector<std::unique_ptr<Communicator>> &communicators,
             const std::function<void(unsigned, Communicator &)> &body) {
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < communicators.size(); ++rank)
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      body(rank, *communicators[rank]);
    });
  for (std::thread &thread : threads)
    thread.join();
}

/// loss = sum(relu(x w^T)) with w sharded over two ranks, gathered, and its gradient reduced.
struct ShardedStep {
  PlanBuilder builder;
  uint32_t x, group, dropped, loss;
  int64_t gradients, shard;

  explicit ShardedStep(std::optional<double> clipNorm = {}, fsdp_norm_type type = FSDP_NORM_2) {
    builder.plan.world_size = 2;
    builder.plan.optimizer = makeOptimizer(FSDP_SGD, {{"lr", {0.1}}});
    group = builder.addGroup("layers.0", "layers.0.w", {16, 8});
    int64_t gathered = builder.allocate(16 * 8 * 4);
    gradients = builder.allocate(16 * 8 * 4);
    shard = builder.allocate(8 * 8 * 4);
    x = builder.addValue(FSDP_F32, {4, 8});
    builder.addInput("x", x);
    uint32_t wt = builder.addStrided(FSDP_F32, {8, 16}, {1, 8}, gathered);
    uint32_t y = builder.addValue(FSDP_F32, {4, 16});
    uint32_t mask = builder.addValue(FSDP_BOOL, {4, 16});
    dropped = builder.addValue(FSDP_F32, {4, 16});
    loss = builder.addValue(FSDP_F32, {});
    uint32_t gradient = builder.addValue(FSDP_F32, {16, 8}, gradients);
    uint32_t gather = builder.allGather(group, gathered);
    builder.zero(gradients, 16 * 8 * 4);
    builder.wait(gather);
    builder.call("mm", "", {value(x), value(wt)}, {y});
    builder.call("native_dropout", "", {value(y), real(0.5), boolean(true)}, {dropped, mask}).rng =
        3;
    builder.call("sum", "", {value(y), none()}, {loss});
    uint32_t ones = builder.addValue(FSDP_F32, {16, 4});
    builder.call(
        "full", "",
        {integers({16, 4}), integer(1), dtype(FSDP_F32), layout(), device(), boolean(false)},
        {ones});
    builder.call("mm", "", {value(ones), value(x)}, {gradient});
    builder.wait(builder.reduceScatter(group, gradients, shard));
    if (clipNorm)
      builder.clip(*clipNorm, type);
    builder.update(group, shard);
  }
};
} // namespace

/// Calls `use` on each of two ranks, threads with an arena and an executor of their own.
static void onExecutors(const fsdp_plan &plan,
                        const std::function<void(unsigned, Executor &, std::byte *)> &use,
                        const ExecutorOptions &options = {}) {
  auto communicators = makeLocalCommunicators(2, {.lanes = lanesOf(PlanView(plan))});
  onRanks(communicators, [&](unsigned rank, Communicator &communicator) {
    CpuDevice device;
    std::byte *arena = *communicator.makeArena(static_cast<size_t>(plan.arena_bytes));
    auto executor = Executor::create(plan, device, communicator, arena, options);
    ASSERT_TRUE(executor.ok()) << executor.status().message();
    use(rank, **executor, arena);
  });
}

// Collectives of the model run in their places: between operators, over all ranks, on the thread of
// the step.
TEST(RanksTest, CollectivesOfTheModel) {
  PlanBuilder builder;
  builder.plan.world_size = 2;
  builder.plan.optimizer = makeOptimizer(FSDP_SGD, {{"lr", {0.1}}});
  auto add = [&](std::vector<int64_t> sizes, fsdp_dtype dtype = FSDP_F32) {
    return builder.addValue(dtype, std::move(sizes));
  };
  uint32_t x = add({3}), all = add({2, 3}), doubled = add({2, 3}), rows = add({3}), mean = add({3}),
           largest = add({3}), rank = add({}), loss = add({});
  builder.addInput("x", x);
  builder.modelCollective(FSDP_MODEL_ALL_GATHER, x, all, FSDP_AVERAGE);
  builder.call("mul", "Tensor", {value(all), value(all)}, {doubled});
  builder.modelCollective(FSDP_MODEL_REDUCE_SCATTER, doubled, rows, FSDP_SUM);
  builder.modelCollective(FSDP_MODEL_ALL_REDUCE, rows, mean, FSDP_AVERAGE);
  builder.modelCollective(FSDP_MODEL_ALL_REDUCE, x, largest, FSDP_MAX);
  uint32_t numbers = add({2});
  builder.call("arange", "", {integer(2), dtype(FSDP_F32), layout(), device(), boolean(false)},
               {numbers});
  builder.call("select_copy", "int", {value(numbers), integer(0), part(2)}, {rank});
  builder.call("sum", "", {value(rows), none()}, {loss});
  const fsdp_plan &plan = builder.finish(loss);
  at::Tensor inputs = at::tensor({1.F, 2.F, 3.F, 4.F, 1.F, 7.F}).view({2, 3});
  for (const bool watched : {false, true})
    onExecutors(plan,
                [&](unsigned number, Executor &executor, std::byte *arena) {
                  auto at = [&](uint32_t of, at::IntArrayRef sizes) {
                    return tensorAt(arena, builder.offsetOf(of), sizes);
                  };
                  for (int64_t step = 1; step <= 3; ++step) {
                    at(x, {3}).copy_(inputs[number]);
                    auto results = executor.step({.step = step, .learningRate = 0.1});
                    ASSERT_TRUE(results.ok()) << results.status().message();
                  }
                  at::Tensor square = at::mul(inputs, inputs);
                  EXPECT_TRUE(at::equal(at(all, {2, 3}), inputs));
                  EXPECT_TRUE(at::equal(at(rows, {3}), at::mul(square[number], 2)));
                  EXPECT_TRUE(at::equal(at(mean, {3}), at::add(square[0], square[1])));
                  EXPECT_TRUE(at::equal(at(largest, {3}), at::maximum(inputs[0], inputs[1])));
                  EXPECT_EQ(at(rank, {}).item<float>(), number);
                },
                {.findNonFinite = watched});
}

// A rank whose gradients only spoil another rank's shard names where they cease to be finite.
TEST(RanksTest, TracesWhatARankGivesToAReduction) {
  PlanBuilder builder;
  builder.plan.world_size = 2;
  builder.plan.optimizer = makeOptimizer(FSDP_SGD, {{"lr", {0.1}}});
  uint32_t group = builder.addGroup("layers.0", "layers.0.w", {16, 8});
  int64_t gradients = builder.allocate(16 * 8 * 4), shard = builder.allocate(8 * 8 * 4);
  uint32_t x = builder.addValue(FSDP_F32, {16, 8}), loss = builder.addValue(FSDP_F32, {});
  builder.addInput("x", x);
  builder.call("sum", "", {value(x), none()}, {loss});
  builder.call("mul", "Tensor", {value(x), value(x)},
               {builder.addValue(FSDP_F32, {16, 8}, gradients)});
  builder.wait(builder.reduceScatter(group, gradients, shard));
  builder.update(group, shard);
  const fsdp_plan &plan = builder.finish(loss);
  onExecutors(plan,
              [&](unsigned rank, Executor &executor, std::byte *arena) {
                // The last row is rank 1's.
                at::Tensor input = tensorAt(arena, builder.offsetOf(x), {16, 8}).fill_(1);
                if (rank == 0)
                  input[15][0].fill_(1e30);
                auto results = executor.step({.step = 1, .learningRate = 0.1});
                ASSERT_TRUE(results.ok()) << results.status().message();
                EXPECT_TRUE((*results)->nonFinite);
                const std::string text = executor.nonFinite()->text;
                EXPECT_TRUE(text.starts_with(rank == 0 ? "aten::mul.Tensor" : "reduce_scatter"))
                    << text;
                EXPECT_NE(text.find(rank == 0 ? "of finite operands" : "own numbers are finite"),
                          std::string::npos)
                    << text;
                EXPECT_EQ(executor.nonFinite()->place, rank == 0 ? 2u : 3u);
              },
              {.findNonFinite = true});
}

// Two ranks gather their shards, average their gradients and update their shards, for several
// steps.
TEST(RanksTest, GatherReduceUpdate) {
  ShardedStep sharded;
  const fsdp_plan &plan = sharded.builder.finish(sharded.loss);
  at::manual_seed(1);
  at::Tensor initial = at::randn({16, 8}), inputs = at::randn({2, 3, 4, 8});
  at::Tensor losses = at::empty({2, 3}), final = at::empty({16, 8});
  onExecutors(plan, [&](unsigned rank, Executor &executor, std::byte *arena) {
    at::Tensor shard = tensorAt(arena, plan.groups[0].shard, {8, 8});
    shard.copy_(initial.narrow(0, rank * 8, 8));
    for (int64_t step = 1; step <= 3; ++step) {
      tensorAt(arena, sharded.builder.offsetOf(sharded.x), {4, 8}).copy_(inputs[rank][step - 1]);
      auto results = executor.step({.step = step, .learningRate = 0.1, .seed = 5});
      ASSERT_TRUE(results.ok()) << results.status().message();
      losses[rank][step - 1].fill_((*results)->loss);
      EXPECT_EQ(executor.statistics().fallbackAllocations > 0, step == 1);
    }
    final.narrow(0, rank * 8, 8).copy_(shard);
  });
  at::Tensor w = initial.clone();
  for (int64_t step = 0; step < 3; ++step) {
    at::Tensor gradient = at::zeros({16, 8});
    for (int64_t rank = 0; rank < 2; ++rank) {
      at::Tensor x = inputs[rank][step];
      EXPECT_EQ(losses[rank][step].item<float>(), at::mm(x, w.t()).sum().item<float>());
      gradient.add_(at::mm(at::ones({16, 4}), x));
    }
    w.add_(gradient.div_(2), -0.1);
  }
  EXPECT_TRUE(at::equal(final, w));
}

namespace {
/// The entries that a tracer is told of, on one stream or on others.
class TracedEntries final : public EntryTracer {
public:
  void begins(uint32_t entry, Stream &stream) override {
    std::lock_guard lock(mutex);
    moments.push_back({entry, true, &stream});
  }
  void ends(uint32_t entry, Stream &stream) override {
    std::lock_guard lock(mutex);
    moments.push_back({entry, false, &stream});
  }

  struct Moment {
    uint32_t entry;
    bool begins;
    Stream *stream;
  };
  std::vector<Moment> moments;

private:
  std::mutex mutex;
};
} // namespace

// A step whose entries overlap nothing is traced entry by entry, in the plan's order, all of it as
// the compute stream's; as planned, collectives are their own streams'. It computes the same.
TEST(RanksTest, TracesAloneAndAsPlanned) {
  ShardedStep sharded;
  const fsdp_plan &plan = sharded.builder.finish(sharded.loss);
  at::manual_seed(1);
  at::Tensor initial = at::randn({16, 8}), inputs = at::randn({2, 4, 8});
  at::Tensor results[] = {at::empty({16, 8}), at::empty({16, 8}), at::empty({16, 8})};
  for (int mode = 0; mode < 3; ++mode)
    onExecutors(plan, [&](unsigned rank, Executor &executor, std::byte *arena) {
      at::Tensor shard = tensorAt(arena, plan.groups[0].shard, {8, 8});
      shard.copy_(initial.narrow(0, rank * 8, 8));
      tensorAt(arena, sharded.builder.offsetOf(sharded.x), {4, 8}).copy_(inputs[rank]);
      TracedEntries traced;
      if (mode != 2)
        executor.trace(&traced, mode == 0 ? Overlap::None : Overlap::AsPlanned);
      for (int64_t step = 1; step <= 3; ++step) {
        traced.moments.clear();
        ASSERT_TRUE(executor.step({.step = step, .learningRate = 0.1, .seed = 5}).ok());
      }
      results[mode].narrow(0, rank * 8, 8).copy_(shard);
      std::set<Stream *> streams;
      std::set<uint32_t> collectives;
      for (size_t i = 0; i < traced.moments.size(); ++i) {
        auto [entry, begins, stream] = traced.moments[i];
        streams.insert(stream);
        if (plan.entries[entry].stream != FSDP_COMPUTE)
          collectives.insert(entry);
        if (mode != 0)
          continue;
        EXPECT_EQ(begins, i % 2 == 0);
        EXPECT_TRUE(i == 0 || (begins ? traced.moments[i - 1].entry < entry
                                      : traced.moments[i - 1].entry == entry));
      }
      EXPECT_EQ(streams.size(), mode == 0 ? 1u : mode == 1 ? 3u : 0u);
      EXPECT_EQ(collectives.size(), mode == 2 ? 0u : 2u);
    });
  EXPECT_TRUE(at::equal(results[0], results[2]));
  EXPECT_TRUE(at::equal(results[1], results[2]));
}

// A group that is gathered and reduced in bf16: a step computes with the rounded fp32 shards, which
// the first step finds loaded and later ones updated, and updates them with the rounded average.
TEST(RanksTest, GathersAndReducesNarrowly) {
  PlanBuilder builder;
  builder.plan.world_size = 2;
  builder.plan.optimizer = makeOptimizer(FSDP_SGD, {{"lr", {0.1}}});
  uint32_t group = builder.addGroup("layers.0", "layers.0.w", {16, 8});
  builder.narrow(group, FSDP_BF16, FSDP_BF16);
  uint32_t w = builder.addValue(FSDP_BF16, {16, 8}), x = builder.addValue(FSDP_BF16, {16, 8});
  uint32_t gradient = builder.addValue(FSDP_BF16, {16, 8}), loss = builder.addValue(FSDP_F32, {});
  int64_t reduced = builder.allocate(8 * 8 * 2);
  builder.addInput("x", x);
  builder.wait(builder.allGather(group, builder.offsetOf(w)));
  builder.call("mul", "Tensor", {value(w), value(x)}, {gradient});
  builder.call("sum", "", {value(w), dtype(FSDP_F32)}, {loss});
  builder.wait(builder.reduceScatter(group, builder.offsetOf(gradient), reduced));
  builder.update(group, reduced);
  const fsdp_plan &plan = builder.finish(loss);

  at::manual_seed(2);
  at::Tensor initial = at::randn({16, 8}), inputs = at::randn({2, 3, 16, 8}).to(at::kBFloat16);
  at::Tensor losses = at::empty({2, 3}), final = at::empty({16, 8});
  onExecutors(plan, [&](unsigned rank, Executor &executor, std::byte *arena) {
    at::Tensor shard = tensorAt(arena, plan.groups[0].shard, {8, 8});
    shard.copy_(initial.narrow(0, rank * 8, 8));
    for (int64_t step = 1; step <= 3; ++step) {
      at::from_blob(arena + builder.offsetOf(x), {16, 8}, at::kBFloat16)
          .copy_(inputs[rank][step - 1]);
      auto results = executor.step({.step = step, .learningRate = 0.1});
      ASSERT_TRUE(results.ok()) << results.status().message();
      losses[rank][step - 1].fill_((*results)->loss);
    }
    final.narrow(0, rank * 8, 8).copy_(shard);
  });
  at::Tensor parameters = initial.clone();
  for (int64_t step = 0; step < 3; ++step) {
    at::Tensor rounded = parameters.to(at::kBFloat16);
    EXPECT_EQ(losses[0][step].item<float>(), rounded.sum(at::kFloat).item<float>());
    EXPECT_EQ(losses[1][step].item<float>(), losses[0][step].item<float>());
    at::Tensor average = rounded.mul(inputs[0][step]).add_(rounded.mul(inputs[1][step])).div_(2);
    parameters.add_(average.to(at::kFloat), -0.1);
  }
  EXPECT_TRUE(at::equal(final, parameters));
}

// The norm is that of the gradients of all ranks, and each rank's shard is updated with its part
// of the clipped gradient. The part of the norm that is told is that before clipping, of the own
// shard.
TEST(RanksTest, ClipsByTheNormOfAllRanks) {
  ShardedStep sharded(0.75);
  const fsdp_plan &plan = sharded.builder.finish(sharded.loss);
  at::manual_seed(2);
  at::Tensor inputs = at::randn({2, 4, 8});
  at::Tensor gradient =
      at::mm(at::ones({16, 4}), inputs[0]).add_(at::mm(at::ones({16, 4}), inputs[1])).div_(2);
  double squares = gradient.to(at::kDouble).square().sum().item<double>();
  ASSERT_GT(squares, 1);
  for (double limit : {0.75, 1e4, 0.25}) {
    ExecutorOptions options;
    if (limit != 0.75) // the plan's
      options.clipGradNorm = limit;
    at::Tensor final = at::empty({16, 8});
    auto train = [&](unsigned rank, Executor &executor, std::byte *arena) {
      tensorAt(arena, plan.groups[0].shard, {8, 8}).fill_(1);
      tensorAt(arena, sharded.builder.offsetOf(sharded.x), {4, 8}).copy_(inputs[rank]);
      auto results = executor.step({.step = 1, .learningRate = 0.1, .seed = 5});
      ASSERT_TRUE(results.ok()) << results.status().message();
      at::Tensor own = gradient.narrow(0, rank * 8, 8).to(at::kDouble);
      EXPECT_NEAR((*results)->partialNorm, own.square().sum().item<double>(), 1e-9 * squares);
      final.narrow(0, rank * 8, 8).copy_(tensorAt(arena, plan.groups[0].shard, {8, 8}));
    };
    onExecutors(plan, train, options);
    float factor = clipFactor(FSDP_NORM_2, squares, static_cast<float>(limit));
    EXPECT_EQ(factor < 1, limit < 10);
    EXPECT_TRUE(at::equal(final, at::ones({16, 8}).add_(at::mul(gradient, factor), -0.1f)))
        << limit;
  }
}

// Norms 1 and inf are those of the gradients of all ranks, too: a sum and a maximum over them.
TEST(RanksTest, ClipsByOtherNorms) {
  at::manual_seed(2);
  at::Tensor inputs = at::randn({2, 4, 8});
  at::Tensor gradient =
      at::mm(at::ones({16, 4}), inputs[0]).add_(at::mm(at::ones({16, 4}), inputs[1])).div_(2);
  at::Tensor sizes = gradient.to(at::kDouble).abs();
  for (fsdp_norm_type type : {FSDP_NORM_1, FSDP_NORM_INF}) {
    ShardedStep sharded(0.75, type);
    const fsdp_plan &plan = sharded.builder.finish(sharded.loss);
    at::Tensor final = at::empty({16, 8});
    onExecutors(plan, [&](unsigned rank, Executor &executor, std::byte *arena) {
      tensorAt(arena, plan.groups[0].shard, {8, 8}).fill_(1);
      tensorAt(arena, sharded.builder.offsetOf(sharded.x), {4, 8}).copy_(inputs[rank]);
      auto results = executor.step({.step = 1, .learningRate = 0.1, .seed = 5});
      ASSERT_TRUE(results.ok()) << results.status().message();
      at::Tensor own = sizes.narrow(0, rank * 8, 8);
      double part = (type == FSDP_NORM_1 ? own.sum() : own.max()).item<double>();
      EXPECT_NEAR((*results)->partialNorm, part, type == FSDP_NORM_1 ? 1e-12 * part : 0);
      final.narrow(0, rank * 8, 8).copy_(tensorAt(arena, plan.groups[0].shard, {8, 8}));
    });
    double norm = (type == FSDP_NORM_1 ? sizes.sum() : sizes.max()).item<double>();
    float factor = clipFactor(type, norm, 0.75f);
    EXPECT_LT(factor, 1);
    EXPECT_TRUE(at::equal(final, at::ones({16, 8}).add_(at::mul(gradient, factor), -0.1f))) << type;
  }
}

// Non-finite gradients: as in torch an infinite norm makes a factor of 0, so that finite elements
// change nothing and infinite ones become NaN, and a NaN makes all of them NaN.
TEST(RanksTest, NormsThatAreNotFinite) {
  struct Case {
    float bad;
    fsdp_norm_type type;
  };
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (auto [bad, type] : {Case{infinity, FSDP_NORM_2}, Case{nan, FSDP_NORM_2},
                           Case{infinity, FSDP_NORM_INF}, Case{nan, FSDP_NORM_INF}}) {
    ShardedStep sharded(0.75, type);
    const fsdp_plan &plan = sharded.builder.finish(sharded.loss);
    onExecutors(plan, [&, bad = bad](unsigned rank, Executor &executor, std::byte *arena) {
      tensorAt(arena, plan.groups[0].shard, {8, 8}).fill_(1);
      at::Tensor x = tensorAt(arena, sharded.builder.offsetOf(sharded.x), {4, 8});
      x.fill_(1);
      // Column 0 of the gradient, in the shards of both ranks.
      if (rank == 0)
        x[0][0].fill_(bad);
      ASSERT_TRUE(executor.step({.step = 1, .learningRate = 0.1, .seed = 5}).ok());
      at::Tensor updated = tensorAt(arena, plan.groups[0].shard, {8, 8});
      EXPECT_TRUE(at::isnan(updated.select(1, 0)).all().item<bool>());
      at::Tensor others = updated.narrow(1, 1, 7);
      if (std::isinf(bad))
        EXPECT_TRUE(at::equal(others, at::ones_like(others)));
      else
        EXPECT_TRUE(at::isnan(others).all().item<bool>());
    });
  }
}

// Ranks draw different numbers at the same position of the same step.
TEST(RanksTest, RanksDrawDifferentNumbers) {
  ShardedStep sharded;
  const fsdp_plan &plan = sharded.builder.finish(sharded.loss);
  at::Tensor kept = at::empty({2, 4, 16});
  onExecutors(plan, [&](unsigned rank, Executor &executor, std::byte *arena) {
    tensorAt(arena, sharded.builder.offsetOf(sharded.x), {4, 8}).fill_(1);
    tensorAt(arena, plan.groups[0].shard, {8, 8}).fill_(1);
    ASSERT_TRUE(executor.step({.step = 1, .learningRate = 0, .seed = 5}).ok());
    kept[rank].copy_(tensorAt(arena, sharded.builder.offsetOf(sharded.dropped), {4, 16}));
  });
  EXPECT_FALSE(at::equal(kept[0], kept[1]));
}

// A failed collective ends the step on every rank; the error names it, its group and its phase.
TEST(RanksTest, CollectiveErrorNamesTheGroup) {
  ShardedStep sharded;
  const fsdp_plan &plan = sharded.builder.finish(sharded.loss);
  auto communicators = makeLocalCommunicators(2, {.lanes = standardLanes(2)});
  std::vector<std::string> messages(2);
  onRanks(communicators, [&](unsigned rank, Communicator &communicator) {
    CpuDevice device;
    std::byte *arena = *communicator.makeArena(static_cast<size_t>(plan.arena_bytes));
    auto executor = Executor::create(plan, device, communicator, arena);
    ASSERT_TRUE(executor.ok()) << executor.status().message();
    if (rank == 1) {
      communicator.abort(Status::error("the power is out"));
      return;
    }
    messages[rank] = (*executor)->step({.step = 1}).status().message();
  });
  EXPECT_EQ(messages[0].rfind("all_gather of group \"layers.0\" in forward: ", 0), 0u)
      << messages[0];
  EXPECT_NE(messages[0].find("the power is out"), std::string::npos) << messages[0];
}

// An operator that fails on one rank ends the step on the others at once, with its message.
TEST(RanksTest, OperatorErrorReachesThePeers) {
  ShardedStep sharded;
  const fsdp_plan &plan = sharded.builder.finish(sharded.loss);
  // Rank 1 runs a plan whose first product cannot be computed.
  ShardedStep broken;
  for (fsdp_entry &entry : broken.builder.entryTable)
    if (entry.kind == FSDP_CALL) {
      entry.num_arguments = 2;
      std::swap(broken.builder.valueTable[broken.x], broken.builder.valueTable[broken.dropped]);
      break;
    }
  const fsdp_plan &brokenPlan = broken.builder.finish(broken.loss);
  auto communicators = makeLocalCommunicators(2, {.lanes = standardLanes(2)});
  std::vector<std::string> messages(2);
  onRanks(communicators, [&](unsigned rank, Communicator &communicator) {
    CpuDevice device;
    std::byte *arena = *communicator.makeArena(static_cast<size_t>(plan.arena_bytes));
    auto executor = Executor::create(rank == 1 ? brokenPlan : plan, device, communicator, arena);
    ASSERT_TRUE(executor.ok()) << executor.status().message();
    messages[rank] = (*executor)->step({.step = 1}).status().message();
  });
  EXPECT_EQ(messages[1].rfind("aten::mm in module \"\": ", 0), 0u) << messages[1];
  EXPECT_EQ(messages[0].rfind("reduce_scatter of group \"layers.0\" in backward: ", 0), 0u)
      << messages[0];
  EXPECT_NE(messages[0].find("aten::mm"), std::string::npos) << messages[0];
}
