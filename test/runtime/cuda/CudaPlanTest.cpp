//===- CudaPlanTest.cpp - The calls behind a plan's step ------------------===//
//
// The executor walks a plan on a recorded device, whose memory is the host's. Operators run on the
// CPU, which is not what these tests are about; streams, events and collectives are.
//
//===----------------------------------------------------------------------===//

#include "../Optimizers.h"
#include "../executor/PlanBuilder.h"
#include "NcclRanks.h"
#include "cuda/CudaFakeTransport.h"
#include "executor/Executor.h"
#include "watch/Watchdog.h"
#include "watch/WatchedCommunicator.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp::rt;
using namespace fsdp::test;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

namespace {

/// Gathers a group, prefetches the next one before waiting, and reduces the second.
struct Prefetch {
  PlanBuilder builder;
  uint32_t loss;

  Prefetch() {
    builder.plan.world_size = 2;
    builder.plan.optimizer = makeOptimizer(FSDP_SGD, {{"lr", {0.1}}});
    loss = builder.addValue(FSDP_F32, {});
    uint32_t first = builder.addGroup("layers.0", "layers.0.w", {16, 8});
    uint32_t second = builder.addGroup("layers.1", "layers.1.w", {16, 8});
    int64_t gathered[2] = {builder.allocate(512), builder.allocate(512)};
    int64_t gradients = builder.allocate(512), shard = builder.allocate(256);
    uint32_t handles[2] = {builder.allGather(first, gathered[0]),
                           builder.allGather(second, gathered[1])};
    builder.wait(handles[0]);
    builder.wait(handles[1]);
    builder.zero(gradients, 512);
    builder.wait(builder.reduceScatter(second, gradients, shard));
    builder.finish(loss);
  }
  const fsdp_plan &plan() const { return builder.plan; }
  PlanView view() const { return PlanView(builder.plan); }

  // What a step calls. Memory: m1 arena, m2 marks, m3 and m4 the step's words on device and host,
  // m5 and m6 its results. Streams: s2 compute, s5 gather, s6 reduce. Events: e1 results, e2
  // compute, e3 and on the handles.

  static std::string place(int64_t offset) {
    return "m1" + (offset ? "+" + std::to_string(offset) : "");
  }
  static std::string gatherCall(const fsdp_entry &entry) {
    return "ncclAllGather " + place(entry.source) + " " + place(entry.destination) + " 256 1 c2 s5";
  }
  std::vector<std::string> inputCalls() const {
    return {"cudaMemcpyAsync m3 m4 " + std::to_string(8 + sizeof(OptimizerScalars)) + " s2"};
  }
  std::vector<std::string> entryCalls() const {
    const fsdp_entry *entries = builder.plan.entries;
    const fsdp_entry &reduction = entries[5];
    return {"cudaEventRecord e2 s2",
            "cudaStreamWaitEvent s5 e2",
            "cuStreamWriteValue32 s5 m2+12 0",
            "cuStreamWriteValue32 s5 m2+8 1",
            gatherCall(entries[0]),
            "cuStreamWriteValue32 s5 m2+12 1",
            "cudaEventRecord e3 s5",
            "cudaEventRecord e2 s2",
            "cudaStreamWaitEvent s5 e2",
            "cuStreamWriteValue32 s5 m2+8 2",
            gatherCall(entries[1]),
            "cuStreamWriteValue32 s5 m2+12 2",
            "cudaEventRecord e4 s5",
            "cudaStreamWaitEvent s2 e3",
            "cudaStreamWaitEvent s2 e4",
            "cudaMemsetAsync " + place(reduction.source) + " 0 512 s2",
            "cudaEventRecord e2 s2",
            "cudaStreamWaitEvent s6 e2",
            "cuStreamWriteValue32 s6 m2+20 0",
            "cuStreamWriteValue32 s6 m2+16 1",
            "ncclReduceScatter " + place(reduction.source) + " " + place(reduction.destination) +
                " 64 7 4 c3 s6",
            "cuStreamWriteValue32 s6 m2+20 1",
            "cudaEventRecord e5 s6",
            "cudaStreamWaitEvent s2 e5",
            "cudaMemcpyAsync m5+8 " + place(builder.offsetOf(loss)) + " 4 s2"};
  }
  std::vector<std::string> resultCalls() const {
    return {"cudaMemcpyAsync m6 m5 16 s2", "cudaEventRecord e1 s2", "cudaEventSynchronize e1"};
  }
};

} // namespace

// The first step of a plan: each collective waits for what compute has done, is issued on its
// lane's stream and communicator between the marks of its start and its end, and compute waits for
// it where the plan says. What changes from step to step goes to the device before, the results
// leave after it. Only this step synchronizes streams. Later ones wait for nothing but the results.
TEST(CudaPlan, EagerSteps) {
  Prefetch prefetch;
  auto ranks = connectRanks(2);
  std::vector<std::string> calls[2]; // by step
  onEach(2, [&](unsigned rank) {
    at::set_num_threads(1);
    NcclRank &own = *ranks[rank];
    std::byte *arena = *(*own).makeArena(static_cast<size_t>(prefetch.plan().arena_bytes));
    auto progress = std::move(*StepProgress::create(prefetch.view(), *own.device));
    WatchedCommunicator watched(*own, prefetch.view(), *progress);
    auto executor =
        Executor::create(prefetch.plan(), *own.device, watched, arena, {.graph = GraphMode::Off});
    ASSERT_TRUE(executor.ok()) << executor.status().message();
    own.calls.take();
    for (int64_t step = 1; step <= 2; ++step) {
      auto results = (*executor)->step({.step = step});
      EXPECT_TRUE(results.ok()) << results.status().message();
      if (rank == 1)
        calls[step - 1] = own.calls.take();
    }
    EXPECT_EQ(progress->numbers(kGatherLane), (StepProgress::Numbers{2, 2, 2}));
    EXPECT_EQ(progress->numbers(kReduceLane), (StepProgress::Numbers{1, 1, 1}));
  });
  std::vector<std::string> step = prefetch.inputCalls();
  for (const std::string &call : prefetch.entryCalls())
    step.push_back(call);
  std::vector<std::string> results = prefetch.resultCalls();
  std::vector<std::string> first = step;
  for (const char *stream : {"s2", "s5", "s6"})
    first.push_back(std::string("cudaStreamSynchronize ") + stream);
  first.push_back("releaseTorchMemory");
  first.insert(first.end(), results.begin(), results.end());
  step.insert(step.end(), results.begin(), results.end());
  EXPECT_THAT(calls[0], ElementsAreArray(first));
  EXPECT_THAT(calls[1], ElementsAreArray(step));
}

// The third step is captured, with its marks, and launched; later ones are one launch between their
// inputs and their results.
TEST(CudaPlan, GraphSteps) {
  Prefetch prefetch;
  auto ranks = connectRanks(2);
  std::vector<std::string> calls[4]; // by step
  onEach(2, [&](unsigned rank) {
    at::set_num_threads(1);
    NcclRank &own = *ranks[rank];
    std::byte *arena = *(*own).makeArena(static_cast<size_t>(prefetch.plan().arena_bytes));
    auto progress = std::move(*StepProgress::create(prefetch.view(), *own.device));
    WatchedCommunicator watched(*own, prefetch.view(), *progress);
    auto executor = Executor::create(prefetch.plan(), *own.device, watched, arena);
    ASSERT_TRUE(executor.ok()) << executor.status().message();
    for (int64_t step = 1; step <= 4; ++step) {
      own.calls.take();
      EXPECT_TRUE((*executor)->step({.step = step}).ok());
      if (rank == 1)
        calls[step - 1] = own.calls.take();
      // Nothing has run between a failed watch and the next step's marks.
      EXPECT_EQ(progress->numbers(kGatherLane), (StepProgress::Numbers{2, 2, 2}));
    }
    EXPECT_EQ((*executor)->graphNote().text, "on: a step is one graph");
  });
  std::vector<std::string> launched = prefetch.inputCalls(), captured = launched;
  captured.push_back("cudaStreamBeginCapture s2 1");
  for (const std::string &call : prefetch.entryCalls())
    captured.push_back(call);
  for (const char *call :
       {"cudaStreamEndCapture s2", "cudaGraphInstantiate g1 8", "cudaGraphDestroy g1"})
    captured.push_back(call);
  for (std::vector<std::string> *step : {&captured, &launched}) {
    // Whether the communicator is well, as a graph does not ask.
    step->push_back("ncclCommGetAsyncError c2");
    step->push_back("ncclCommGetAsyncError c3");
    step->push_back("cudaGraphLaunch x1 s2");
    for (const std::string &call : prefetch.resultCalls())
      step->push_back(call);
  }
  EXPECT_THAT(calls[2], ElementsAreArray(captured));
  EXPECT_THAT(calls[3], ElementsAreArray(launched));
}

// Starts that the plan coalesces are one launch: one wait for compute, one group of NCCL, and the
// events of all handles behind it. The group starts with its first collective and completes with
// its last.
TEST(CudaPlan, CoalescedStarts) {
  Prefetch prefetch;
  prefetch.builder.entryTable[1].coalesced = 1;
  prefetch.builder.finish(prefetch.loss);
  auto ranks = connectRanks(2);
  std::vector<std::string> calls;
  onEach(2, [&](unsigned rank) {
    at::set_num_threads(1);
    NcclRank &own = *ranks[rank];
    std::byte *arena = *(*own).makeArena(static_cast<size_t>(prefetch.plan().arena_bytes));
    auto progress = std::move(*StepProgress::create(prefetch.view(), *own.device));
    WatchedCommunicator watched(*own, prefetch.view(), *progress);
    auto executor = Executor::create(prefetch.plan(), *own.device, watched, arena);
    ASSERT_TRUE(executor.ok()) << executor.status().message();
    own.calls.take();
    EXPECT_TRUE((*executor)->step({.step = 1}).ok());
    if (rank == 1)
      calls = own.calls.take();
  });
  const fsdp_entry *entries = prefetch.plan().entries;
  std::vector<std::string> group = {"cudaEventRecord e2 s2",
                                    "cudaStreamWaitEvent s5 e2",
                                    "ncclGroupStart",
                                    "cuStreamWriteValue32 s5 m2+12 0",
                                    "cuStreamWriteValue32 s5 m2+8 1",
                                    Prefetch::gatherCall(entries[0]),
                                    Prefetch::gatherCall(entries[1]),
                                    "ncclGroupEnd",
                                    "cuStreamWriteValue32 s5 m2+8 2",
                                    "cuStreamWriteValue32 s5 m2+12 2",
                                    "cudaEventRecord e3 s5",
                                    "cudaEventRecord e4 s5",
                                    "cudaStreamWaitEvent s2 e3"};
  ASSERT_GT(calls.size(), group.size());
  calls = {calls.begin() + 1, calls.begin() + 1 + static_cast<ptrdiff_t>(group.size())};
  EXPECT_THAT(calls, ElementsAreArray(group));
}

// A group that NCCL cannot launch ends the step.
TEST(CudaPlan, FailedGroup) {
  Prefetch prefetch;
  prefetch.builder.entryTable[1].coalesced = 1;
  prefetch.builder.finish(prefetch.loss);
  for (const char *call : {"ncclGroupStart", "ncclGroupEnd", "ncclAllGather"}) {
    auto ranks = connectRanks(2);
    onEach(2, [&](unsigned rank) {
      at::set_num_threads(1);
      NcclRank &own = *ranks[rank];
      std::byte *arena = *(*own).makeArena(static_cast<size_t>(prefetch.plan().arena_bytes));
      auto executor = Executor::create(prefetch.plan(), *own.device, *own, arena);
      ASSERT_TRUE(executor.ok()) << executor.status().message();
      if (rank == 1)
        return;
      own.calls.fail(call, ncclUnhandledCudaError);
      own.calls.take();
      EXPECT_THAT((*executor)->step({.step = 1}).status().message(), HasSubstr("nccl error 1"));
      // No group stays open on this thread.
      EXPECT_EQ(std::ranges::count(own.calls.take(), "ncclGroupEnd"),
                std::string(call) == "ncclGroupStart" ? 0 : 1);
    });
  }
}

// A collective that cannot be launched ends the step on that rank with its name, aborts NCCL there,
// and the peer learns it by looking at its communicator's health.
TEST(CudaPlan, FailedLaunch) {
  Prefetch prefetch;
  auto ranks = connectRanks(2);
  onEach(2, [&](unsigned rank) {
    at::set_num_threads(1);
    NcclRank &own = *ranks[rank];
    std::byte *arena = *(*own).makeArena(static_cast<size_t>(prefetch.plan().arena_bytes));
    auto executor = Executor::create(prefetch.plan(), *own.device, *own, arena);
    ASSERT_TRUE(executor.ok()) << executor.status().message();
    if (rank == 1)
      return;
    own.calls.fail("ncclReduceScatter", ncclUnhandledCudaError);
    own.calls.take();
    Status status = (*executor)->step({.step = 1}).status();
    EXPECT_THAT(status.message(),
                HasSubstr("reduce_scatter of group \"layers.1\" in backward: reduce_scatter of 64 "
                          "f32 (average) on the reduce lane: nccl error 1"));
    EXPECT_THAT(own.calls.take(), testing::IsSupersetOf({"ncclCommAbort c1", "ncclCommAbort c2",
                                                         "ncclCommAbort c3"}));
  });
  EXPECT_THAT((**ranks[1]).health().message(), HasSubstr("aborted by rank 0: "));
}

// An asynchronous error that NCCL tells only when asked ends the run: the watchdog aborts both
// lanes, on the peer too.
TEST(CudaPlan, AsynchronousError) {
  Prefetch prefetch;
  auto ranks = connectRanks(2);
  std::vector<std::string> messages(2);
  onEach(2, [&](unsigned rank) {
    NcclRank &own = *ranks[rank];
    auto progress = std::move(*StepProgress::create(prefetch.view(), *own.device));
    // Its stream has started the second gather, and hangs there.
    progress->started(kGatherLane) = 2;
    progress->completed(kGatherLane) = 1;
    if (rank == 1)
      own.calls.setAsyncState(0, ncclRemoteError);
    std::atomic<bool> reported{false};
    Watchdog watchdog(*own, *progress, {std::chrono::minutes(1), std::chrono::milliseconds(1)},
                      [&](const std::string &message, const std::string &) {
                        messages[rank] = message;
                        reported = true;
                        reported.notify_all();
                      });
    reported.wait(false);
  });
  for (unsigned rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(messages[rank], HasSubstr("NCCL on the gather lane: nccl error 6; under way: "
                                          "all_gather of group \"layers.1\" in forward"));
    EXPECT_THAT(ranks[rank]->calls.take(),
                testing::IsSupersetOf({"ncclCommAbort c2", "ncclCommAbort c3"}));
  }
  EXPECT_THAT(messages[0], HasSubstr("aborted by rank 1"));
}

// What a step issues can be captured as one graph: compute is the origin, the lanes' streams fork
// from it and join it, and nothing inside synchronizes.
TEST(CudaPlan, CapturedCollectives) {
  Prefetch prefetch;
  RecordingCalls calls;
  auto device = std::move(*CudaDevice::open(calls, {}));
  auto fake = std::move(
      *FakeCommunicator::create({.ranks = 2, .lanes = standardLanes(2), .largestBlockBytes = 256},
                                std::make_unique<CudaFakeTransport>(*device)));
  auto compute = device->makeComputeStream(), gather = device->makeStream("fsdp-gather");
  auto fork = device->makeEvent(), join = device->makeEvent();
  fake->useStream(kGatherLane, *gather);
  std::byte *arena = *fake->makeArena(4096);
  calls.take();
  auto graph = device->capture(*compute, [&]() -> Status {
    compute->record(*fork);
    if (Status status = gather->wait(*fork); !status.ok())
      return status;
    if (Status status = fake->allGather(kGatherLane, arena, arena, 64); !status.ok())
      return status;
    gather->record(*join);
    return compute->wait(*join);
  });
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  for (int step = 0; step < 3; ++step)
    EXPECT_TRUE((*graph)->launch(*compute).ok());
  EXPECT_THAT(calls.take(),
              ElementsAre("cudaStreamBeginCapture s3 1", "cudaEventRecord e1 s3",
                          "cudaStreamWaitEvent s4 e1", "cudaMemcpyAsync m3+64 m3 64 s4",
                          "cudaEventRecord e2 s4", "cudaStreamWaitEvent s3 e2",
                          "cudaStreamEndCapture s3", "cudaGraphInstantiate g1 8",
                          "cudaGraphDestroy g1", "cudaGraphLaunch x1 s3", "cudaGraphLaunch x1 s3",
                          "cudaGraphLaunch x1 s3"));
}
