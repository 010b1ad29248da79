//===- TrainingStep.cpp - A small step to run on recorded devices ---------===//

#include "TrainingStep.h"
#include "../Optimizers.h"
#include "comm/StandardLanes.h"

#include <ATen/Parallel.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace fsdp::rt;
using namespace fsdp::test;

void TrainingStep::widen(uint32_t wide, int64_t place, std::vector<int64_t> sizes) {
  if (narrow)
    builder.call("_to_copy", "",
                 {value(builder.addValue(FSDP_BF16, std::move(sizes), place)), dtype(FSDP_F32),
                  none(), none(), none(), boolean(false), none()},
                 {wide});
}

int64_t TrainingStep::narrowed(uint32_t gradient, std::vector<int64_t> sizes) {
  if (!narrow)
    return builder.offsetOf(gradient);
  uint32_t cast = builder.addValue(FSDP_BF16, std::move(sizes));
  builder.call("_to_copy", "",
               {value(gradient), dtype(FSDP_BF16), none(), none(), none(), boolean(false), none()},
               {cast});
  return builder.offsetOf(cast);
}

/// A row to a unit.
static void doubleRows(void *const *tensors, int64_t begin, int64_t end) {
  for (int64_t i = 16 * begin; i < 16 * end; ++i)
    static_cast<float *>(tensors[1])[i] = 2 * static_cast<const float *>(tensors[0])[i];
}

uint32_t TrainingStep::doubled(uint32_t value) {
  if (!generated)
    return value;
  uint32_t result = builder.addValue(FSDP_F32, {4, 16});
  builder.kernel(doubleRows, 4, {value}, {result});
  return result;
}

TrainingStep::TrainingStep(uint32_t optimizer, Options options)
    : TrainingStep(makeOptimizer(optimizer, {{"lr", {0.1}}, {"weight_decay", {0.01}}}), options) {}

TrainingStep::TrainingStep(const fsdp_optimizer &optimizer, Options options)
    : narrow(options.narrow), generated(options.generated) {
  if (generated)
    builder.gpuCode = ".visible .entry code(...)";
  std::optional<double> clipNorm = options.clipNorm;
  builder.plan.world_size = 2;
  builder.plan.optimizer = optimizer;
  uint32_t first = builder.addGroup("layers.0", "layers.0.v", {16, 8});
  uint32_t second = builder.addGroup("layers.1", "layers.1.w", {8, 16});
  if (narrow)
    for (uint32_t group : {first, second})
      builder.narrow(group, FSDP_BF16, FSDP_BF16);
  uint32_t x = builder.addValue(FSDP_F32, {4, 8});
  builder.addInput("x", x);
  int64_t v = builder.allocate(512);
  uint32_t wideV = builder.addValue(FSDP_F32, {16, 8}, v);
  uint32_t w = builder.addValue(FSDP_F32, {8, 16});
  int64_t gathered[2] = {v, builder.offsetOf(w)};
  if (narrow)
    for (int64_t &place : gathered)
      place = builder.allocate(256);
  uint32_t vt = builder.addStrided(FSDP_F32, {8, 16}, {1, 8}, v);
  uint32_t wt = builder.addStrided(FSDP_F32, {16, 8}, {1, 16}, builder.offsetOf(w));
  uint32_t y = builder.addValue(FSDP_F32, {4, 16}), mask = builder.addValue(FSDP_BOOL, {4, 16});
  uint32_t d = builder.addValue(FSDP_F32, {4, 16}), z = builder.addValue(FSDP_F32, {4, 8});
  loss = builder.addValue(FSDP_F32, {});
  uint32_t gathers[2] = {builder.allGather(first, gathered[0]),
                         builder.allGather(second, gathered[1])};
  builder.entryTable.back().coalesced = 1;
  builder.wait(gathers[0]);
  widen(wideV, gathered[0], {16, 8});
  builder.call("mm", "", {value(x), value(vt)}, {y});
  builder.call("native_dropout", "", {value(doubled(y)), real(0.5), boolean(true)}, {d, mask}).rng =
      3;
  builder.wait(gathers[1]);
  widen(w, gathered[1], {8, 16});
  builder.call("mm", "", {value(d), value(wt)}, {z});
  builder.call("sum", "", {value(z), none()}, {loss});

  uint32_t ones = builder.addValue(FSDP_F32, {4, 8});
  builder.call("full", "",
               {integers({4, 8}), integer(1), dtype(FSDP_F32), layout(), device(), boolean(false)},
               {ones});
  uint32_t onesT = builder.addStrided(FSDP_F32, {8, 4}, {1, 8}, builder.offsetOf(ones));
  builder.view("t", "", {value(ones)}, {onesT});
  uint32_t dw = builder.addValue(FSDP_F32, {8, 16}), dd = builder.addValue(FSDP_F32, {4, 16});
  uint32_t dy = builder.addValue(FSDP_F32, {4, 16}), dv = builder.addValue(FSDP_F32, {16, 8});
  int64_t shards[2] = {builder.allocate(256), builder.allocate(256)};
  builder.call("mm", "", {value(onesT), value(d)}, {dw});
  uint32_t reduced = builder.reduceScatter(second, narrowed(dw, {8, 16}), shards[1]);
  builder.call("mm", "", {value(ones), value(w)}, {dd});
  builder.call("native_dropout_backward", "", {value(dd), value(mask), real(2)}, {dy});
  dy = doubled(dy);
  uint32_t dyT = builder.addStrided(FSDP_F32, {16, 4}, {1, 16}, builder.offsetOf(dy));
  builder.view("t", "", {value(dy)}, {dyT});
  builder.call("mm", "", {value(dyT), value(x)}, {dv});
  builder.wait(reduced);
  if (!clipNorm)
    builder.update(second, shards[1]);
  builder.wait(builder.reduceScatter(first, narrowed(dv, {16, 8}), shards[0]));
  if (clipNorm) {
    builder.clip(*clipNorm, options.clipNormType);
    builder.update(second, shards[1]);
  }
  builder.update(first, shards[0]);
}

void TrainingStep::addMaskedWrite() {
  uint32_t mask = builder.addValue(FSDP_BOOL, {4}), target = builder.addConstant({4}, {1, 2, 3, 4});
  builder.zero(builder.offsetOf(mask), 4);
  uint32_t one = builder.addConstant({}, {1}), written = builder.addValue(FSDP_F32, {4});
  builder.call("index_put", "", {value(target), values({mask}), value(one), boolean(false)},
               {written});
}

/// A copy of `x`, between two words.
static std::tuple<at::Tensor, at::Tensor, at::Tensor> withWords(const at::Tensor &x) {
  const bool isCaptured =
      c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::TESTING_ONLY_GenericMode);
  auto word = [&](int64_t number) {
    if (isCaptured) {
      at::Tensor placed = at::empty({}, at::kLong);
      *placed.mutable_data_ptr<int64_t>() = number;
      return placed;
    }
    auto *memory = new int64_t(number);
    return at::from_blob(memory, at::IntArrayRef(), [memory](void *) { delete memory; }, at::kLong);
  };
  at::Tensor first = word(1);
  return {first, x.clone(), word(2)};
}

TORCH_LIBRARY_FRAGMENT(aten, library) {
  library.def("_fsdp_test_with_words(Tensor x) -> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(aten, CPU, library) { library.impl("_fsdp_test_with_words", &withWords); }

void TrainingStep::addHostResults() {
  uint32_t x = builder.addConstant({}, {1}), copy = builder.addValue(FSDP_F32, {});
  uint32_t words[] = {builder.addValue(FSDP_I64, {}), builder.addValue(FSDP_I64, {})};
  builder.call("_fsdp_test_with_words", "", {value(x)}, {words[0], copy, words[1]});
}

namespace {
/// What is traced does not matter.
class NoTracer final : public EntryTracer {
public:
  void begins(uint32_t, Stream &) override {}
  void ends(uint32_t, Stream &) override {}
};
} // namespace

RankRun fsdp::test::runSteps(const fsdp_plan &plan, int64_t steps, Device &device,
                             Communicator &communicator, ExecutorOptions options,
                             int64_t tracedStep) {
  at::set_num_threads(1);
  RankRun run;
  std::byte *arena = *communicator.makeArena(static_cast<size_t>(plan.arena_bytes));
  auto shardOf = [&](const fsdp_group &group) {
    return std::span(reinterpret_cast<float *>(arena + group.shard),
                     static_cast<size_t>(group.shard_elements));
  };
  for (uint32_t group = 0; group < plan.num_groups; ++group)
    for (size_t i = 0; float &element : shardOf(plan.groups[group]))
      element = std::sin(static_cast<float>(100 * communicator.rank() + 50 * group + i++));
  PlanView view(plan);
  auto progress = std::move(*StepProgress::create(view, device));
  WatchedCommunicator watched(communicator, view, *progress);
  auto executor = Executor::create(plan, device, watched, arena, options);
  if (!executor.ok()) {
    run.status = executor.status();
    return run;
  }
  for (int64_t step = 1; step <= steps && run.status.ok(); ++step) {
    std::span<std::byte> input = (*executor)->input(0);
    for (size_t i = 0; i < input.size() / sizeof(float); ++i) {
      float element = std::cos(static_cast<float>(step * 40 + communicator.rank() * 20 + i));
      std::memcpy(input.data() + i * sizeof(float), &element, sizeof(float));
    }
    NoTracer tracer;
    (*executor)->trace(step == tracedStep && communicator.rank() == 0 ? &tracer : nullptr);
    auto results = (*executor)->step({.step = step,
                                      .learningRate = 0.1 / static_cast<double>(step),
                                      .seed = 5,
                                      .byEntry = step == tracedStep});
    run.status = results.status();
    if (results.ok() && *results)
      run.results.push_back(**results);
  }
  while (run.status.ok()) {
    auto results = (*executor)->finish();
    run.status = results.status();
    if (!results.ok() || !*results)
      break;
    run.results.push_back(**results);
  }
  for (uint32_t group = 0; group < plan.num_groups; ++group)
    for (float element : shardOf(plan.groups[group]))
      run.parameters.push_back(element);
  run.graphNote = (*executor)->graphNote().text;
  run.lostMarks = progress->lostMarks();
  run.gathers = progress->numbers(kGatherLane);
  run.reductions = progress->numbers(kReduceLane);
  run.statistics = (*executor)->statistics();
  return run;
}

std::vector<RankRun> fsdp::test::runOnCpus(const fsdp_plan &plan, int64_t steps) {
  auto communicators = makeLocalCommunicators(2, {.lanes = standardLanes(2)});
  std::vector<RankRun> runs(2);
  onEach(2, [&](unsigned rank) {
    CpuDevice device;
    runs[rank] = runSteps(plan, steps, device, *communicators[rank]);
  });
  return runs;
}

RecordedRanks::RecordedRanks(unsigned size)
    : exchanges(makeLocalCommunicators(size, {.lanes = standardLanes(size)})),
      ranks(connectRanks(size, {}, [this](unsigned rank, RecordingCalls &calls) {
        calls.exchange = exchanges[rank].get();
      })) {}

std::vector<RankRun> RecordedRanks::run(const fsdp_plan &plan, int64_t steps,
                                        ExecutorOptions options, int64_t tracedStep) {
  std::vector<RankRun> runs(ranks.size());
  onEach(static_cast<unsigned>(ranks.size()), [&](unsigned rank) {
    NcclRank &own = *ranks[rank];
    own.calls.plan = &plan;
    runs[rank] = runSteps(plan, steps, *own.device, *own, options, tracedStep);
    // A rank that fails must not leave the other one in the exchange.
    if (!runs[rank].status.ok())
      exchanges[rank]->abort(runs[rank].status);
  });
  return runs;
}

size_t fsdp::test::countOf(const std::vector<std::string> &calls, const std::string &prefix) {
  return static_cast<size_t>(std::ranges::count_if(
      calls, [&](const std::string &call) { return call.starts_with(prefix); }));
}
