//===- WatchdogTest.cpp - Collectives that do not complete ----------------===//

#include "watch/Watchdog.h"
#include "../Optimizers.h"
#include "../executor/PlanBuilder.h"
#include "comm/StandardLanes.h"
#include "device/CpuDevice.h"
#include "executor/Executor.h"
#include "watch/WatchedCommunicator.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp::rt;
using namespace fsdp::test;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

namespace {

/// Gathers two groups and reduces the second, on two ranks.
struct TwoGroups {
  PlanBuilder builder;
  uint32_t loss;

  TwoGroups() {
    builder.plan.world_size = 2;
    builder.plan.optimizer = makeOptimizer(FSDP_SGD, {{"lr", {0.1}}});
    loss = builder.addValue(FSDP_F32, {});
    for (const char *name : {"layers.0", "layers.1"}) {
      uint32_t group = builder.addGroup(name, std::string(name) + ".w", {16, 8});
      builder.wait(builder.allGather(group, builder.allocate(16 * 8 * 4)));
    }
    int64_t gradients = builder.allocate(16 * 8 * 4), shard = builder.allocate(8 * 8 * 4);
    builder.zero(gradients, 16 * 8 * 4);
    builder.wait(builder.reduceScatter(1, gradients, shard));
    builder.update(1, shard);
    builder.finish(loss);
  }
  PlanView view() const { return PlanView(builder.plan); }
};

/// A communicator whose call number `stalledCall` (from 1) returns only when it is aborted, and
/// that can feign an asynchronous error.
class FaultyCommunicator final : public Communicator {
public:
  FaultyCommunicator(Communicator &inner, unsigned stalledCall)
      : Communicator(inner), inner(inner), stalledCall(stalledCall) {}

  Result<std::byte *> makeArena(size_t bytes) override { return inner.makeArena(bytes); }
  Status allGather(unsigned lane, const void *input, void *output, size_t bytes) override {
    return stalls() ? await() : inner.allGather(lane, input, output, bytes);
  }
  Status reduceScatter(unsigned lane, const void *input, void *output, size_t count,
                       fsdp_dtype dtype, ReduceOp op) override {
    return stalls() ? await() : inner.reduceScatter(lane, input, output, count, dtype, op);
  }
  Status allReduce(unsigned lane, void *data, size_t count, fsdp_dtype dtype,
                   ReduceOp op) override {
    return inner.allReduce(lane, data, count, dtype, op);
  }
  Status broadcast(unsigned lane, void *data, size_t bytes, unsigned root) override {
    return inner.broadcast(lane, data, bytes, root);
  }
  Status barrier(unsigned lane) override { return inner.barrier(lane); }
  Status health() override {
    std::lock_guard lock(mutex);
    return feigned.empty() ? inner.health() : Status::error(feigned);
  }
  void abort(const Status &why) override {
    inner.abort(why);
    std::lock_guard lock(mutex);
    reason = why.message();
    aborted.notify_all();
  }
  std::function<void()> onCall; // what to do at each gather and reduction

  void feignError(const std::string &message) {
    std::lock_guard lock(mutex);
    feigned = message;
  }

private:
  bool stalls() {
    if (onCall)
      onCall();
    return ++calls == stalledCall;
  }
  Status await() {
    std::unique_lock lock(mutex);
    aborted.wait(lock, [&] { return !reason.empty(); });
    return Status::error("aborted: " + reason);
  }

  Communicator &inner;
  const unsigned stalledCall;
  std::atomic<unsigned> calls{0};
  std::mutex mutex;
  std::condition_variable aborted;
  std::string reason, feigned;
};

/// What a rank of a run says in the end.
struct RankResult {
  Status step;
  std::string message, dump; // of the watchdog's report
  std::string progress;      // after all
};

/// Runs one step on two ranks of the CPU; call `stalledCall` of rank 1 stalls (0: none does).
std::vector<RankResult> runStep(const TwoGroups &plan, unsigned stalledCall,
                                const std::string &feigned = "") {
  auto communicators = makeLocalCommunicators(2, {.lanes = standardLanes(2)});
  std::vector<RankResult> results(2);
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      RankResult &result = results[rank];
      FaultyCommunicator faulty(*communicators[rank], rank == 1 ? stalledCall : 0);
      if (rank == 1 && !feigned.empty())
        faulty.feignError(feigned);
      CpuDevice device;
      auto progress = StepProgress::create(plan.view(), device);
      ASSERT_TRUE(progress.ok());
      WatchedCommunicator watched(faulty, plan.view(), **progress);
      std::byte *arena = *watched.makeArena(static_cast<size_t>(plan.builder.plan.arena_bytes));
      auto executor = Executor::create(plan.builder.plan, device, watched, arena);
      ASSERT_TRUE(executor.ok()) << executor.status().message();
      // Ranks that come late do not count.
      ASSERT_TRUE(watched.barrier(kControlLane).ok());
      {
        milliseconds deadline(stalledCall == 0 || !feigned.empty() ? 60000 : 2000);
        Watchdog watchdog(watched, **progress, {deadline, milliseconds(1)},
                          [&](const std::string &message, const std::string &dump) {
                            result.message = message;
                            result.dump = dump;
                          });
        (*progress)->beginStep(1);
        result.step = (*executor)->step({.step = 1}).status();
      }
      result.progress = (*progress)->dump();
    });
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

} // namespace

// A step that ends well has issued, started and completed the same; nobody reports anything.
TEST(Watchdog, GoodStep) {
  TwoGroups plan;
  for (const RankResult &result : runStep(plan, 0)) {
    EXPECT_TRUE(result.step.ok()) << result.step.message();
    EXPECT_EQ(result.message, "");
    std::string gather = "all_gather of group \"layers.1\" in forward (entry 3 of 8)";
    std::string reduce = "reduce_scatter of group \"layers.1\" in backward (entry 6 of 8)";
    EXPECT_EQ(result.progress, "step 1\ncompute: issued nothing\n"
                               "gather lane: issued " +
                                   gather + ", started " + gather + ", completed " + gather +
                                   "\nreduce lane: issued " + reduce + ", started " + reduce +
                                   ", completed " + reduce + "\n");
  }
}

// A collective that stalls on one rank ends the step on both, with a message that names it; the
// dump says what completed last.
TEST(Watchdog, StalledCollective) {
  TwoGroups plan;
  std::vector<RankResult> results = runStep(plan, 3);
  std::string name = "reduce_scatter of group \"layers.1\" in backward";
  for (const RankResult &result : results) {
    EXPECT_THAT(result.step.message(), HasSubstr(name));
    EXPECT_THAT(result.step.message(), HasSubstr("has not completed within 2000 ms"));
    EXPECT_THAT(result.progress,
                HasSubstr("started " + name + " (entry 6 of 8), completed nothing"));
    EXPECT_THAT(result.progress,
                HasSubstr("completed all_gather of group \"layers.1\" in forward (entry 3 of 8)"));
  }
  // One rank's watchdog is first, and reports at once; the other rank may end before its own does.
  const RankResult &first = results[results[0].message.empty() ? 1 : 0];
  EXPECT_THAT(first.message, HasSubstr(name));
  EXPECT_THAT(first.dump, HasSubstr("started " + name + " (entry 6 of 8), completed nothing"));
}

// A stall in the middle of a lane's sequence: what came before has completed.
TEST(Watchdog, StalledSecondGather) {
  TwoGroups plan;
  for (const RankResult &result : runStep(plan, 2)) {
    EXPECT_THAT(result.step.message(), HasSubstr("all_gather of group \"layers.1\" in forward"));
    EXPECT_THAT(result.progress,
                HasSubstr("started all_gather of group \"layers.1\" in forward (entry 3 of 8), "
                          "completed all_gather of group \"layers.0\" in forward (entry 1 of 8)"));
    EXPECT_THAT(result.progress, HasSubstr("reduce lane: issued nothing, started nothing"));
  }
}

// An error that only shows in the communicator's health ends the step on both ranks, long before
// any deadline, with what the communicator knows of the peer.
TEST(Watchdog, UnhealthyCommunicator) {
  TwoGroups plan;
  for (const RankResult &result : runStep(plan, 1, "the link to rank 0 is down")) {
    EXPECT_THAT(result.step.message(),
                HasSubstr("all_gather of group \"layers.0\" in forward: aborted"));
    EXPECT_THAT(result.step.message(), HasSubstr("the link to rank 0 is down"));
    EXPECT_THAT(result.step.message(), Not(HasSubstr("bytes on the gather lane")));
    EXPECT_THAT(result.step.message(), Not(HasSubstr("under way")));
  }
}

namespace {

/// A progress without an executor.
struct Progress {
  TwoGroups plan;
  CpuDevice device;
  std::unique_ptr<StepProgress> progress = std::move(*StepProgress::create(plan.view(), device));
  StallDetector detector{*progress, milliseconds(100)};
  StallDetector::Clock::time_point start{};

  std::string look(int ms) { return detector.look(start + milliseconds(ms)); }
};

} // namespace

// A collective has the whole deadline from when it is first seen under way; others start anew.
TEST(StallDetector, CountsFromTheStart) {
  Progress run;
  run.progress->beginStep(1);
  EXPECT_EQ(run.look(0), "");
  run.progress->started(kGatherLane) = 1;
  EXPECT_EQ(run.look(1000), "");
  EXPECT_EQ(run.look(1099), "");
  run.progress->completed(kGatherLane) = 1;
  run.progress->started(kGatherLane) = 2;
  EXPECT_EQ(run.look(1100), "");
  EXPECT_EQ(run.look(1199), "");
  EXPECT_EQ(run.look(1200), "all_gather of group \"layers.1\" in forward (entry 3 of 8) on the "
                            "gather lane has not completed within 100 ms");
}

// What the plan predicts of a collective comes on top, ten times over; of a launch of several, for
// all of them.
TEST(StallDetector, AllowsForWhatIsPredicted) {
  Progress run;
  std::vector<fsdp_entry> &entries = run.plan.builder.entryTable;
  entries[2].expected_ns = 2'500'000;
  run.progress->beginStep(1);
  run.progress->started(kGatherLane) = 2;
  EXPECT_EQ(run.look(0), "");
  EXPECT_EQ(run.look(124), "");
  EXPECT_THAT(run.look(125), HasSubstr("has not completed within 125 ms (100 ms and 10 times the "
                                       "predicted 2.5 ms)"));
  entries[0].expected_ns = 1'000'000;
  entries[2].coalesced = 1;
  run.progress->started(kGatherLane) = 1;
  EXPECT_EQ(run.look(200), "");
  EXPECT_EQ(run.look(334), "");
  EXPECT_THAT(run.look(335), HasSubstr("within 135 ms"));
}

// Idle lanes do not stall, however long they idle.
TEST(StallDetector, IdleLanesDoNotStall) {
  Progress run;
  run.progress->started(kGatherLane) = run.progress->completed(kGatherLane) = 2;
  EXPECT_EQ(run.look(0), "");
  EXPECT_EQ(run.look(100000), "");
}

// Where a stream could not say what it does, nothing is known to stall.
TEST(StallDetector, LostMarksAreNoStall) {
  Progress run;
  run.progress->started(kGatherLane) = 1;
  EXPECT_EQ(run.look(0), "");
  run.progress->loseMarks("the first reason");
  run.progress->loseMarks("the second reason");
  EXPECT_EQ(run.look(100000), "");
  EXPECT_THAT(run.progress->dump(), HasSubstr("completed is unknown: the first reason"));
  EXPECT_THAT(run.progress->dump(), Not(HasSubstr(", started ")));
}

// The same collective, seen under way in step after step, is no stall.
TEST(StallDetector, NewStepsAreProgress) {
  Progress run;
  run.progress->started(kReduceLane) = 1;
  for (int step = 0; step < 10; ++step) {
    run.progress->beginStep(static_cast<uint64_t>(step) + 1);
    EXPECT_EQ(run.look(step * 99), "");
    EXPECT_EQ(run.look(step * 99 + 50), "");
  }
  EXPECT_NE(run.look(9 * 99 + 100), "");
}

// What is not the plan's next collective is refused before the peers see it.
TEST(WatchedCommunicator, RefusesWhatIsNotInThePlan) {
  TwoGroups plan;
  CpuDevice device;
  auto communicators = makeLocalCommunicators(2, {.lanes = standardLanes(2)});
  auto progress = std::move(*StepProgress::create(plan.view(), device));
  WatchedCommunicator watched(*communicators[0], plan.view(), *progress);
  std::byte memory[1024];
  EXPECT_EQ(watched.allGather(kGatherLane, memory, memory, 128).message(),
            "a collective of 128 bytes per rank on the gather lane, where the plan has all_gather "
            "of group \"layers.0\" in forward (entry 1 of 8) of 256");
  EXPECT_EQ(
      watched.reduceScatter(kGatherLane, memory, memory, 64, FSDP_F32, ReduceOp::Sum).message(),
      "a collective of 256 bytes per rank on the gather lane, where the plan has all_gather "
      "of group \"layers.1\" in forward (entry 3 of 8) of 256");
}

// A lane's only collective is under way in every step anew.
TEST(WatchedCommunicator, NumbersBeginAgain) {
  TwoGroups plan;
  CpuDevice device;
  auto communicators = makeLocalCommunicators(2, {.lanes = standardLanes(2)});
  auto progress = std::move(*StepProgress::create(plan.view(), device));
  FaultyCommunicator stalled(*communicators[0], 0);
  WatchedCommunicator watched(stalled, plan.view(), *progress);
  std::thread peer([&] {
    float input[128] = {}, output[64];
    for (int step = 0; step < 2; ++step)
      EXPECT_TRUE(communicators[1]
                      ->reduceScatter(kReduceLane, input, output, 64, FSDP_F32, ReduceOp::Average)
                      .ok());
  });
  float input[128] = {}, output[64];
  for (int step = 0; step < 2; ++step) {
    stalled.onCall = [&] {
      EXPECT_EQ(progress->numbers(kReduceLane), (StepProgress::Numbers{1, 1, 0})) << step;
    };
    EXPECT_TRUE(
        watched.reduceScatter(kReduceLane, input, output, 64, FSDP_F32, ReduceOp::Average).ok());
    EXPECT_EQ(progress->numbers(kReduceLane), (StepProgress::Numbers{1, 1, 1}));
  }
  peer.join();
}

// On a stream that does not block, the numbers follow the stream: they change when it gets there.
TEST(WatchedCommunicator, MarksFollowTheStream) {
  struct AsyncCommunicator final : Communicator {
    AsyncCommunicator() : Communicator(/*rank=*/0, /*size=*/2, standardLanes(2)) {}
    Result<std::byte *> makeArena(size_t) override { return nullptr; }
    Status allGather(unsigned, const void *, void *, size_t) override { return {}; }
    Status reduceScatter(unsigned, const void *, void *, size_t, fsdp_dtype, ReduceOp) override {
      return {};
    }
    Status allReduce(unsigned, void *, size_t, fsdp_dtype, ReduceOp) override { return {}; }
    Status broadcast(unsigned, void *, size_t, unsigned) override { return {}; }
    Status barrier(unsigned) override { return {}; }
    bool useStream(unsigned, Stream &) override { return true; }
    void abort(const Status &) override {}
  } inner;
  struct Gate {
    std::mutex mutex;
    static Status pass(void *gate, uint32_t) {
      std::lock_guard lock(static_cast<Gate *>(gate)->mutex);
      return {};
    }
  } gate;
  TwoGroups plan;
  CpuDevice device;
  auto progress = std::move(*StepProgress::create(plan.view(), device));
  WatchedCommunicator watched(inner, plan.view(), *progress);
  auto stream = device.makeStream("s");
  ASSERT_TRUE(watched.useStream(kGatherLane, *stream));
  {
    std::lock_guard lock(gate.mutex);
    stream->enqueue({Gate::pass, &gate, 0});
    EXPECT_TRUE(watched.allGather(kGatherLane, nullptr, nullptr, 256).ok());
    EXPECT_EQ(progress->numbers(kGatherLane), (StepProgress::Numbers{1, 0, 0}));
  }
  EXPECT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(progress->numbers(kGatherLane), (StepProgress::Numbers{1, 1, 1}));
}
