//===- CudaExecutorTest.cpp - Steps that run on recorded devices ----------===//
//
// The executor's whole path for CUDA trains a small model: tensors, copies, kernels, collectives
// and graphs do their work in memory of the host, whenever CUDA would (SimulatedStreams.h). What it
// computes is compared with the executor on CPUs.
//
//===----------------------------------------------------------------------===//

#include "OptimizerCases.h"
#include "TrainingStep.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp::rt;
using namespace fsdp::test;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

namespace {

/// Losses and parameters have the same bits; the squares are summed in another order.
void expectSameTraining(const std::vector<RankRun> &runs, const std::vector<RankRun> &expected,
                        uint32_t reductions = 2) {
  for (size_t rank = 0; rank < expected.size(); ++rank) {
    ASSERT_TRUE(runs[rank].status.ok()) << runs[rank].status.message();
    ASSERT_TRUE(expected[rank].status.ok()) << expected[rank].status.message();
    ASSERT_EQ(runs[rank].results.size(), expected[rank].results.size());
    for (size_t i = 0; i < expected[rank].results.size(); ++i) {
      const StepResults &own = runs[rank].results[i], &other = expected[rank].results[i];
      EXPECT_EQ(own.step, other.step);
      EXPECT_EQ(own.loss, other.loss) << "step " << own.step;
      EXPECT_NEAR(own.partialNorm, other.partialNorm, 1e-12 * other.partialNorm);
    }
    EXPECT_EQ(runs[rank].parameters, expected[rank].parameters);
    // All were issued, have started and completed.
    EXPECT_EQ(runs[rank].gathers, (StepProgress::Numbers{2, 2, 2}));
    EXPECT_EQ(runs[rank].reductions, (StepProgress::Numbers{reductions, reductions, reductions}));
  }
}

} // namespace

// Steps that are issued call by call give the bits of the CPU's.
TEST(CudaExecutor, EagerStepsTrainAsOnCpus) {
  for (uint32_t optimizer : {FSDP_SGD, FSDP_ADAMW}) {
    TrainingStep step(optimizer);
    const fsdp_plan &plan = step.finish();
    RecordedRanks ranks;
    std::vector<RankRun> runs = ranks.run(plan, 6, {.graph = GraphMode::Off});
    expectSameTraining(runs, runOnCpus(plan, 6));
    EXPECT_EQ(runs[0].graphNote, "off: not asked for");
    EXPECT_EQ(runs[0].statistics.fallbackAllocations, 0);
    EXPECT_EQ(countOf(ranks[0].calls.take(), "cudaStreamBeginCapture"), 0u);
  }
}

// From the third step on a step is one graph, captured once; learning rate, step number, inputs and
// random numbers change from launch to launch, and the bits are still the CPU's.
TEST(CudaExecutor, GraphsTrainAsOnCpus) {
  for (uint32_t optimizer : {FSDP_SGD, FSDP_ADAMW}) {
    TrainingStep step(optimizer);
    const fsdp_plan &plan = step.finish();
    RecordedRanks ranks;
    std::vector<RankRun> runs = ranks.run(plan, 6);
    expectSameTraining(runs, runOnCpus(plan, 6));
    EXPECT_EQ(runs[0].graphNote, "on: a step is one graph");
    std::vector<std::string> calls = ranks[0].calls.take();
    EXPECT_EQ(countOf(calls, "cudaStreamBeginCapture"), 1u);
    EXPECT_EQ(countOf(calls, "cudaGraphLaunch"), 4u);
  }
}

// Each optimizer with its options, clipped, eager and in a graph, whose launches have the scalars
// of their steps.
TEST(CudaExecutor, OptimizersTrainAsOnCpus) {
  for (const fsdp_optimizer &optimizer : optimizerCases()) {
    SCOPED_TRACE(std::string(fsdp::plan::kindOf(optimizer).name));
    TrainingStep step(optimizer, {.narrow = true, .clipNorm = 0.5});
    const fsdp_plan &plan = step.finish();
    const std::vector<RankRun> expected = runOnCpus(plan, 8);
    RecordedRanks eager, graphs;
    expectSameTraining(eager.run(plan, 8, {.graph = GraphMode::Off}), expected, 3);
    std::vector<RankRun> runs = graphs.run(plan, 8);
    expectSameTraining(runs, expected, 3);
    EXPECT_EQ(runs[0].graphNote, "on: a step is one graph");
  }
}

// Groups that travel in bf16: the first step begins with the shards' copies, later ones find those
// that the update kernel has written in its pass, eager and in a graph; the bits are the CPU's.
TEST(CudaExecutor, NarrowGroupsTrainAsOnCpus) {
  for (uint32_t optimizer : {FSDP_SGD, FSDP_ADAMW})
    for (GraphMode graph : {GraphMode::Off, GraphMode::Automatic}) {
      TrainingStep step(optimizer, {.narrow = true});
      const fsdp_plan &plan = step.finish();
      RecordedRanks ranks;
      std::vector<RankRun> runs = ranks.run(plan, 6, {.graph = graph});
      expectSameTraining(runs, runOnCpus(plan, 6));
      std::vector<std::string> calls = ranks[0].calls.take();
      bool isGraph = graph == GraphMode::Automatic;
      EXPECT_EQ(countOf(calls, "cudaGraphLaunch"), isGraph ? 4u : 0u);
      // Two groups; a graph holds its own.
      EXPECT_EQ(countOf(calls, "accumulate"), 2u);
      EXPECT_EQ(countOf(calls, "optimizerUpdate"), isGraph ? 6u : 12u);
      // 128 bytes of a shard; averages of 64 elements of bf16 (9).
      const fsdp_group &group = plan.groups[0];
      auto place = [&](int64_t offset) { return "m1+" + std::to_string(offset); };
      EXPECT_THAT(calls, Contains(StartsWith("ncclAllGather " + place(group.gather_shard) + " ")));
      EXPECT_THAT(calls, Contains(HasSubstr(" 128 1 c2 ")));
      EXPECT_THAT(calls, Contains(HasSubstr(" 64 9 4 c3 ")));
      EXPECT_THAT(calls,
                  Contains(testing::AllOf(StartsWith("optimizerUpdate "),
                                          HasSubstr(" " + place(group.gather_shard) + " 15 "))));
    }
}

// Generated kernels are launched on the compute stream, in a graph too; their code is loaded once,
// and given back.
TEST(CudaExecutor, GeneratedKernelsTrainAsOnCpus) {
  TrainingStep step(FSDP_ADAMW, {.generated = true}), plain(FSDP_ADAMW);
  const fsdp_plan &plan = step.finish();
  std::vector<RankRun> expected = runOnCpus(plan, 6);
  EXPECT_NE(expected[0].parameters, runOnCpus(plain.finish(), 6)[0].parameters);
  for (GraphMode graph : {GraphMode::Off, GraphMode::Automatic}) {
    RecordedRanks ranks;
    std::vector<RankRun> runs = ranks.run(plan, 6, {.graph = graph});
    expectSameTraining(runs, expected);
    bool isGraph = graph == GraphMode::Automatic;
    EXPECT_EQ(runs[0].graphNote.starts_with("on"), isGraph);
    std::vector<std::string> calls = ranks[0].calls.take();
    EXPECT_EQ(countOf(calls, "cudaLibraryLoadData"), 1u);
    EXPECT_EQ(countOf(calls, "cudaLibraryGetKernel l1 code"), 2u);
    EXPECT_EQ(countOf(calls, "cudaLaunchKernel k1 1 32 m1+"), isGraph ? 3u : 6u);
    EXPECT_EQ(countOf(calls, "cudaLaunchKernel k2 1 32 m1+"), isGraph ? 3u : 6u);
    EXPECT_EQ(countOf(calls, "cudaLibraryUnload l1"), 1u);
  }
}

// Clipping needs no host: the factor stays on the device, in a graph too. That of the norm's parts
// over the ranks is the third reduction. The norm that is told is the one before clipping.
TEST(CudaExecutor, ClippedGradientsTrainAsOnCpus) {
  for (auto [optimizer, type] : {std::pair(FSDP_SGD, FSDP_NORM_2),
                                 {FSDP_ADAMW, FSDP_NORM_2},
                                 {FSDP_SGD, FSDP_NORM_1},
                                 {FSDP_SGD, FSDP_NORM_INF}}) {
    TrainingStep step(optimizer, {.clipNorm = 0.05, .clipNormType = type}), free(optimizer);
    const fsdp_plan &plan = step.finish();
    std::vector<RankRun> expected = runOnCpus(plan, 6), unclipped = runOnCpus(free.finish(), 6);
    EXPECT_NE(expected[0].parameters, unclipped[0].parameters);
    if (type == FSDP_NORM_2) {
      EXPECT_EQ(expected[0].results[0].partialNorm, unclipped[0].results[0].partialNorm);
    }
    RecordedRanks eager, graphs;
    expectSameTraining(eager.run(plan, 6, {.graph = GraphMode::Off}), expected, 3);
    std::vector<RankRun> runs = graphs.run(plan, 6);
    expectSameTraining(runs, expected, 3);
    EXPECT_EQ(runs[0].graphNote, "on: a step is one graph");
    std::vector<std::string> calls = graphs[0].calls.take();
    EXPECT_EQ(countOf(calls, "clipFactor"), 3u); // two steps, and the graph's capture
    EXPECT_EQ(countOf(calls, "partialNorm"), 6u);
    EXPECT_EQ(countOf(calls, "ncclAllReduce"), 3u);
  }
}

// The norm of the run wins over the plan's; one that is never reached changes no bit.
TEST(CudaExecutor, NormsOfTheRun) {
  TrainingStep step(FSDP_ADAMW, {.clipNorm = 0.5}), free(FSDP_ADAMW);
  RecordedRanks ranks;
  std::vector<RankRun> runs = ranks.run(step.finish(), 4, {.clipGradNorm = 1e6});
  std::vector<RankRun> expected = runOnCpus(free.finish(), 4);
  for (size_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(runs[rank].parameters, expected[rank].parameters);
}

// Results that lag are the same, and the host waits for none of the last steps.
TEST(CudaExecutor, LaggingResultsAreTheSame) {
  TrainingStep step;
  const fsdp_plan &plan = step.finish();
  RecordedRanks ranks;
  std::vector<RankRun> runs = ranks.run(plan, 6, {.lossLag = 2});
  expectSameTraining(runs, runOnCpus(plan, 6));
}

// With a lag of one step, a step waits for the results of the one before and no other, and inputs
// of two steps have places of their own.
TEST(CudaExecutor, LaggingStepsWaitForEarlierOnes) {
  TrainingStep step;
  const fsdp_plan &plan = step.finish();
  RecordedRanks ranks;
  onEach(2, [&](unsigned rank) {
    at::set_num_threads(1);
    NcclRank &own = ranks[rank];
    std::byte *arena = *(*own).makeArena(static_cast<size_t>(plan.arena_bytes));
    auto executor = std::move(*Executor::create(plan, *own.device, *own, arena, {.lossLag = 1}));
    std::vector<std::byte *> places;
    std::vector<std::string> waits;
    for (int64_t number = 1; number <= 5; ++number) {
      places.push_back(executor->input(0).data());
      own.calls.take();
      EXPECT_TRUE(executor->step({.step = number}).ok());
      for (const std::string &call : own.calls.take())
        if (call.starts_with("cudaEventSynchronize") ||
            (number > 1 && call.starts_with("cudaStreamSynchronize")))
          waits.push_back(std::to_string(number) + ": " + call);
    }
    EXPECT_NE(places[0], places[1]);
    EXPECT_EQ(places[0], places[2]);
    EXPECT_THAT(waits, ElementsAre("2: cudaEventSynchronize e1", "3: cudaEventSynchronize e2",
                                   "4: cudaEventSynchronize e1", "5: cudaEventSynchronize e2"));
    EXPECT_EQ(executor->finish()->value().step, 5);
  });
}

// A step that cannot be captured is issued call by call, and the note says why.
TEST(CudaExecutor, FailedCapturesAreNoErrors) {
  TrainingStep step;
  const fsdp_plan &plan = step.finish();
  std::vector<RankRun> expected = runOnCpus(plan, 5);
  for (const char *call : {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate",
                           "cudaGraphDestroy"}) {
    RecordedRanks ranks;
    for (unsigned rank = 0; rank < 2; ++rank)
      ranks[rank].calls.fail(call, cudaErrorStreamCaptureUnsupported);
    std::vector<RankRun> runs = ranks.run(plan, 5);
    expectSameTraining(runs, expected);
    EXPECT_EQ(runs[1].graphNote,
              "off: the step cannot be captured: " + std::string(call) + ": cuda error 900");
  }
}

// A stream that cannot say what it does costs the watchdog its view and nothing else: steps are the
// same, graphs too.
TEST(CudaExecutor, FailedMarksAreNoErrors) {
  TrainingStep step;
  const fsdp_plan &plan = step.finish();
  RecordedRanks ranks;
  ranks[1].calls.fail("cuStreamWriteValue32", cudaErrorNotSupported, 3);
  std::vector<RankRun> runs = ranks.run(plan, 5), expected = runOnCpus(plan, 5);
  for (unsigned rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(runs[rank].status.ok()) << runs[rank].status.message();
    EXPECT_EQ(runs[rank].parameters, expected[rank].parameters);
    EXPECT_EQ(runs[rank].graphNote, "on: a step is one graph");
  }
  EXPECT_EQ(runs[0].lostMarks, "");
  EXPECT_EQ(runs[1].lostMarks, "cuStreamWriteValue32: cuda error 801");
  EXPECT_EQ(countOf(ranks[1].calls.take(), "cuStreamWriteValue32"), 3u);
}

// No rank launches a graph where another has none: the reason names the rank.
TEST(CudaExecutor, RanksAgreeOnGraphs) {
  TrainingStep step;
  const fsdp_plan &plan = step.finish();
  std::vector<RankRun> expected = runOnCpus(plan, 5);
  for (const char *call : {"cudaStreamBeginCapture", "cudaGraphInstantiate"}) {
    RecordedRanks ranks;
    ranks[1].calls.fail(call, cudaErrorStreamCaptureUnsupported);
    std::vector<RankRun> runs = ranks.run(plan, 5);
    expectSameTraining(runs, expected);
    for (unsigned rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(runs[rank].graphNote, "off: [rank 1] the step cannot be captured: " +
                                          std::string(call) + ": cuda error 900");
      EXPECT_EQ(countOf(ranks[rank].calls.take(), "cudaGraphLaunch"), 0u);
    }
  }
}

// A step that rank 0 traces is a graph on no rank, whether it would be the one that is captured (3)
// or comes later.
TEST(CudaExecutor, TracedStepsAreNoGraph) {
  TrainingStep step;
  const fsdp_plan &plan = step.finish();
  for (int64_t traced : {2, 3, 5}) {
    RecordedRanks ranks;
    std::vector<RankRun> runs = ranks.run(plan, 6, {}, traced);
    expectSameTraining(runs, runOnCpus(plan, 6));
    for (unsigned rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(runs[rank].graphNote, "on: a step is one graph");
      EXPECT_EQ(countOf(ranks[rank].calls.take(), "cudaGraphLaunch"), 3u) << traced;
    }
  }
}

// So is one whose work fails to be captured half way: streams and the order of collectives are as
// they were.
TEST(CudaExecutor, CapturesThatFailHalfWayAreNoErrors) {
  TrainingStep step;
  const fsdp_plan &plan = step.finish();
  RecordedRanks ranks;
  for (unsigned rank = 0; rank < 2; ++rank) {
    RecordingCalls &calls = ranks[rank].calls;
    calls.onCall = [&calls](const std::string &name) {
      if (name == "cudaStreamBeginCapture")
        calls.fail("partialNorm", cudaErrorStreamCaptureInvalidated);
    };
  }
  std::vector<RankRun> runs = ranks.run(plan, 5);
  expectSameTraining(runs, runOnCpus(plan, 5));
  EXPECT_EQ(runs[0].graphNote,
            "off: the step cannot be captured: the kernel partialNorm: cuda error 901");
}

// Operators that need on the host what the device computes keep a step from being a graph, by name.
TEST(CudaExecutor, HostReadsAreNoGraph) {
  TrainingStep step;
  step.addMaskedWrite();
  RecordedRanks ranks;
  std::vector<RankRun> runs = ranks.run(step.finish(), 3);
  ASSERT_TRUE(runs[0].status.ok()) << runs[0].status.message();
  EXPECT_THAT(runs[0].graphNote, StartsWith("off: aten::index_put"));
  EXPECT_THAT(ranks[0].calls.take(), Not(Contains(StartsWith("cudaStreamBeginCapture"))));
}

// Results that an operator leaves in the host's memory are copied to their places, without memory
// for that; in a captured step, where the operator allocates them on the device, they are placed.
TEST(CudaExecutor, HostResultsArePlacedInGraphs) {
  TrainingStep step;
  step.addHostResults();
  const fsdp_plan &plan = step.finish();
  RecordedRanks ranks;
  std::vector<RankRun> runs = ranks.run(plan, 2);
  ASSERT_TRUE(runs[0].status.ok()) << runs[0].status.message();
  EXPECT_EQ(runs[0].statistics.copiedBytes, 2 * 8);
  EXPECT_EQ(runs[0].statistics.fallbackAllocations, 0);
  runs = RecordedRanks().run(plan, 6);
  expectSameTraining(runs, runOnCpus(plan, 6));
  EXPECT_EQ(runs[0].graphNote, "on: a step is one graph");
  EXPECT_EQ(runs[0].statistics.copiedBytes, 0); // of the step that was captured
  EXPECT_EQ(runs[0].statistics.fallbackAllocations, 0);
}
