//===- CudaFailuresTest.cpp - Recorded devices that fail ------------------===//
//
// Calls of CUDA and NCCL fail, or never end: the run ends on all ranks, and the error names the
// reason.
//
//===----------------------------------------------------------------------===//

#include "TrainingStep.h"
#include "watch/Watchdog.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

using namespace fsdp::rt;
using namespace fsdp::test;
using testing::HasSubstr;

// What cannot be loaded, found or launched ends the run with its name, and leaves nothing loaded.
TEST(CudaFailures, FailedGeneratedKernelsAreErrors) {
  TrainingStep step(FSDP_SGD, {.generated = true}), forCpus(FSDP_SGD, {.generated = true});
  const fsdp_plan &plan = step.finish();
  auto errorOf = [&](const char *call, int error) {
    RecordedRanks ranks;
    for (unsigned rank = 0; rank < 2; ++rank)
      ranks[rank].calls.fail(call, error);
    std::string message = ranks.run(plan, 3)[0].status.message();
    std::vector<std::string> calls = ranks[0].calls.take();
    bool isLoaded = std::string(call) != "cudaLibraryLoadData";
    EXPECT_EQ(countOf(calls, "cudaLibraryUnload"), isLoaded ? 1u : 0u) << call;
    return message;
  };
  EXPECT_EQ(errorOf("cudaLibraryLoadData", cudaErrorInvalidPtx),
            "the plan's generated kernels cannot be loaded: cuda error 218: ptxas application ptx "
            "input, line 1; fatal");
  EXPECT_EQ(errorOf("cudaLibraryGetKernel", cudaErrorSymbolNotFound),
            "kernel kernel of mul, add in module \"\": cudaLibraryGetKernel: cuda error 500");
  EXPECT_THAT(errorOf("cudaLaunchKernel", cudaErrorLaunchOutOfResources),
              HasSubstr("the kernel kernel: cuda error 701"));
  forCpus.builder.gpuCode.clear();
  RecordedRanks ranks;
  EXPECT_EQ(ranks.run(forCpus.finish(), 1)[0].status.message(),
            "kernel kernel of mul, add in module \"\": generated for CPUs; capture the step with "
            "--target cuda");
}

// Each of the step's few allocations may fail; the error names it.
TEST(CudaFailures, FailedAllocationsAreErrors) {
  TrainingStep step(FSDP_SGD, {.clipNorm = 1});
  const fsdp_plan &plan = step.finish();
  RecordedRanks counting;
  (void)counting.run(plan, 1);
  size_t allocations = countOf(counting[0].calls.take(), "cudaMalloc");
  ASSERT_GT(allocations, 2u);
  for (unsigned nth = 1; nth <= allocations; ++nth) {
    RecordedRanks ranks;
    for (unsigned rank = 0; rank < 2; ++rank)
      ranks[rank].calls.fail("cudaMalloc", cudaErrorMemoryAllocation, nth);
    std::vector<RankRun> runs = ranks.run(plan, 1);
    EXPECT_THAT(runs[0].status.message(), HasSubstr("bytes: cuda error 2")) << nth;
  }
}

// A kernel that cannot be launched ends the step with its name, on the peer too.
TEST(CudaFailures, FailedKernelsAreErrors) {
  TrainingStep step(FSDP_SGD, {.clipNorm = 1});
  const fsdp_plan &plan = step.finish();
  for (const char *kernel : {"partialNorm", "optimizerUpdate", "joinPartials", "clipFactor"}) {
    RecordedRanks ranks;
    ranks[1].calls.fail(kernel, cudaErrorLaunchOutOfResources, 2);
    std::vector<RankRun> runs = ranks.run(plan, 3);
    EXPECT_THAT(runs[1].status.message(),
                HasSubstr("the kernel " + std::string(kernel) + ": cuda error 701"));
    EXPECT_THAT((*ranks[0]).health().message(), HasSubstr("aborted by rank 1")) << kernel;
  }
}

// A collective that never ends stops no rank for good, whether it was issued in a step (1 to 2) or
// is part of a launched graph (3 and on): the watchdog sees the marks of its stream, names it and
// aborts.
TEST(CudaFailures, StalledCollectives) {
  TrainingStep step;
  const fsdp_plan &plan = step.finish();
  PlanView view(plan);
  for (unsigned stalled : {1, 4}) {
    RecordedRanks ranks;
    onEach(2, [&](unsigned rank) {
      at::set_num_threads(1);
      NcclRank &own = *ranks.ranks[rank];
      own.calls.hang("ncclReduceScatter", 2 * stalled);
      std::byte *arena = *(*own).makeArena(static_cast<size_t>(plan.arena_bytes));
      auto progress = std::move(*StepProgress::create(view, *own.device));
      WatchedCommunicator watched(*own, view, *progress);
      auto executor = std::move(*Executor::create(plan, *own.device, watched, arena));
      Watchdog watchdog(watched, *progress,
                        {std::chrono::milliseconds(1000), std::chrono::milliseconds(10)},
                        [](const std::string &, const std::string &) {});
      for (unsigned number = 1; number <= stalled && watchdog.status().ok(); ++number) {
        progress->beginStep(number);
        Status status = executor->step({.step = number}).status();
        EXPECT_TRUE(status.ok() || number == stalled) << status.message();
      }
      EXPECT_THAT(watchdog.status().message(),
                  HasSubstr("reduce_scatter of group \"layers.0\" in backward"));
    });
  }
}

// NCCL's abort does not return while a graph holds its collectives: an abort does not wait for
// that, and the communicators end once the executor is gone.
TEST(CudaFailures, AbortWithGraph) {
  TrainingStep step;
  const fsdp_plan &plan = step.finish();
  RecordedRanks ranks;
  std::mutex mutex;
  std::condition_variable changed;
  std::thread::id threads[2];
  bool destroyed[2] = {};
  unsigned abortsInside = 0; // that wait for the graph
  for (unsigned rank = 0; rank < 2; ++rank)
    ranks[rank].calls.onCall = [&, rank](const std::string &name) {
      if (name == "cudaStreamBeginCapture")
        threads[rank] = std::this_thread::get_id();
      if (name == "cudaGraphLaunch")
        (*ranks[rank]).abort(Status::error("a test"));
      std::unique_lock lock(mutex);
      if (name == "cudaGraphExecDestroy")
        destroyed[rank] = true;
      changed.notify_all();
      // The root communicator is in no graph; the thread that aborts does that itself.
      if (name != "ncclCommAbort" || std::this_thread::get_id() == threads[rank])
        return;
      ++abortsInside;
      changed.wait(lock, [&] { return destroyed[rank]; });
    };
  std::vector<RankRun> runs = ranks.run(plan, 5);
  EXPECT_THAT(runs[0].status.message(), HasSubstr("aborted by rank"));
  ranks.ranks.clear();
  EXPECT_EQ(abortsInside, 4u); // two lanes of two ranks
}
