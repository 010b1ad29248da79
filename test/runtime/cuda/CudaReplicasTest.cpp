//===- CudaReplicasTest.cpp - The calls behind a replicated step -----------===//

#include "../Optimizers.h"
#include "../executor/PlanBuilder.h"
#include "NcclRanks.h"
#include "comm/FakeCommunicator.h"
#include "executor/Executor.h"
#include "executor/FakeRun.h"
#include "watch/WatchedCommunicator.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp::rt;
using namespace fsdp::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// One group on 2 replicas of 2 shards: its gradients are reduced, then averaged over the replicas.
struct Replicated {
  PlanBuilder builder;
  int64_t gradients, shard;

  Replicated() {
    builder.plan.world_size = 4;
    builder.plan.replicas = 2;
    builder.plan.optimizer = makeOptimizer(FSDP_SGD, {{"lr", {0.1}}});
    uint32_t loss = builder.addValue(FSDP_F32, {});
    uint32_t group = builder.addGroup("layers.0", "layers.0.w", {16, 8});
    gradients = builder.allocate(512);
    shard = builder.allocate(256);
    uint32_t reduction = builder.reduceScatter(group, gradients, shard);
    uint32_t across = builder.allReduce(group, reduction, shard);
    builder.wait(reduction);
    builder.wait(across);
    builder.finish(loss);
  }
  const fsdp_plan &plan() const { return builder.plan; }
};

std::vector<std::unique_ptr<NcclRank>> connectMesh() {
  return connectRanks(4, {.communication = {.lanes = standardLanes(4, 2)}});
}

} // namespace

// Lanes are split by the ranks that meet there: rank 3 is shard 1 of replica 1.
TEST(CudaReplicas, Split) {
  auto ranks = connectMesh();
  ASSERT_TRUE(ranks[3]->communicator.ok()) << ranks[3]->communicator.status().message();
  std::vector<std::string> splits;
  for (const std::string &call : ranks[3]->calls.take())
    if (call.starts_with("ncclCommSplit"))
      splits.push_back(call);
  EXPECT_THAT(splits, ElementsAre("ncclCommSplit c1 color=2 key=1 blocking=1",
                                  "ncclCommSplit c1 color=2 key=1 blocking=1",
                                  "ncclCommSplit c1 color=1 key=1 blocking=1"));
}

// The arena is a window of all three lanes, and a failed collective aborts all.
TEST(CudaReplicas, ArenaAndAbort) {
  auto ranks = connectMesh();
  onEach(4, [&](unsigned rank) { EXPECT_TRUE((**ranks[rank]).makeArena(5000).ok()); });
  EXPECT_THAT(ranks[2]->calls.take(),
              testing::IsSupersetOf({"ncclCommWindowRegister c2 m1 8192 1",
                                     "ncclCommWindowRegister c3 m1 8192 1",
                                     "ncclCommWindowRegister c4 m1 8192 1"}));
  (**ranks[2]).abort(Status::error("the test says so"));
  EXPECT_THAT(ranks[2]->calls.take(),
              testing::IsSupersetOf({"ncclCommAbort c2", "ncclCommAbort c3", "ncclCommAbort c4"}));
  EXPECT_THAT((**ranks[0]).health().message(), HasSubstr("the test says so"));
}

// The all-reduce is issued on a stream and a communicator of its own, behind what compute has done
// and behind the end of the reduce-scatter; compute waits for both. Arena: m1; marks: m2.
TEST(CudaReplicas, Step) {
  Replicated replicated;
  PlanView view(replicated.plan());
  auto ranks = connectMesh();
  std::vector<std::string> calls;
  onEach(4, [&](unsigned rank) {
    at::set_num_threads(1);
    NcclRank &own = *ranks[rank];
    std::byte *arena = *(*own).makeArena(static_cast<size_t>(replicated.plan().arena_bytes));
    auto progress = std::move(*StepProgress::create(view, *own.device));
    WatchedCommunicator watched(*own, view, *progress);
    auto executor = Executor::create(replicated.plan(), *own.device, watched, arena);
    ASSERT_TRUE(executor.ok()) << executor.status().message();
    own.calls.take();
    EXPECT_TRUE((*executor)->step({.step = 1}).ok());
    if (rank == 1)
      calls = own.calls.take();
    EXPECT_EQ(progress->numbers(kReplicateLane), (StepProgress::Numbers{1, 1, 1}));
    EXPECT_THAT(progress->dump(),
                HasSubstr("replicate lane: issued all_reduce of group \"layers.0\" in backward"));
  });
  std::string shard = "m1+" + std::to_string(replicated.shard);
  // A collective's stream is its last argument. Compute is s2.
  auto streamOf = [&](const char *collective) {
    auto call = std::ranges::find_if(
        calls, [&](const std::string &other) { return other.starts_with(collective); });
    return call == calls.end() ? "none" : call->substr(call->rfind(' ') + 1);
  };
  std::string reduce = streamOf("ncclReduceScatter"), replicate = streamOf("ncclAllReduce");
  EXPECT_NE(reduce, replicate);
  auto eventOf = [&](const std::string &call) {
    size_t begin = call.find(" e");
    return call.substr(begin + 1, call.find(' ', begin + 1) - begin - 1);
  };
  auto record = [&](const std::string &stream, auto from) {
    return std::find_if(from, calls.end(), [&](const std::string &call) {
      return call.starts_with("cudaEventRecord ") && call.ends_with(" " + stream);
    });
  };
  auto reduced = record(reduce, calls.begin());
  ASSERT_NE(reduced, calls.end());
  auto issued = record("s2", reduced);
  ASSERT_NE(issued, calls.end());
  auto averaged = record(replicate, issued);
  ASSERT_NE(averaged, calls.end());
  EXPECT_THAT(std::vector<std::string>(issued + 1, averaged),
              ElementsAre("cudaStreamWaitEvent " + replicate + " " + eventOf(*issued),
                          "cudaStreamWaitEvent " + replicate + " " + eventOf(*reduced),
                          "cuStreamWriteValue32 " + replicate + " m2+28 0",
                          "cuStreamWriteValue32 " + replicate + " m2+24 1",
                          "ncclAllReduce " + shard + " " + shard + " 64 7 4 c4 " + replicate,
                          "cuStreamWriteValue32 " + replicate + " m2+28 1"));
  std::vector<std::string> rest(averaged + 1, calls.end());
  EXPECT_THAT(rest, testing::IsSupersetOf({"cudaStreamWaitEvent s2 " + eventOf(*reduced),
                                           "cudaStreamWaitEvent s2 " + eventOf(*averaged)}));
}

// Sums take ncclSum or a PreMulSum of NCCL, and what a rank divides by itself is a kernel on the
// collective's stream, before or behind it.
TEST(CudaReplicas, DividedSums) {
  struct Case {
    fsdp_reduce_op scatter, across;
    double scatterPre, scatterPost, acrossPre, acrossPost;
    std::vector<std::string> calls;
  };
  const std::string gradients = "m1+" + std::to_string(Replicated().gradients),
                    shard = "m1+" + std::to_string(Replicated().shard);
  const std::string whole = "accumulate " + gradients + " 6 ", part = "accumulate " + shard + " 6 ";
  const std::string scatter = "ncclReduceScatter " + gradients + " " + shard + " 64 7 ",
                    across = "ncclAllReduce " + shard + " " + shard + " 64 7 ";
  const Case cases[] = {
      {FSDP_AVERAGE, FSDP_AVERAGE, 0, 0, 0, 0, {scatter + "4", across + "4"}},
      {FSDP_AVERAGE, FSDP_SUM, 0, 0, 0, 0, {scatter + "4", across + "0"}},
      {FSDP_SUM, FSDP_SUM, 0, 0, 0, 4, {scatter + "0", across + "0", part}},
      {FSDP_SUM, FSDP_SUM, 2, 0, 0, 2, {whole, scatter + "0", across + "0", part}},
      {FSDP_PREMUL_SUM, FSDP_SUM, 5, 0, 0, 0, {scatter + "5", across + "0"}}};
  for (const Case &wanted : cases) {
    Replicated replicated;
    for (fsdp_entry &entry : replicated.builder.entryTable)
      if (entry.kind == FSDP_REDUCE_SCATTER_START) {
        entry.reduce_op = wanted.scatter;
        entry.predivide = wanted.scatterPre;
        entry.postdivide = wanted.scatterPost;
      } else if (entry.kind == FSDP_ALL_REDUCE_START) {
        entry.reduce_op = wanted.across;
        entry.predivide = wanted.acrossPre;
        entry.postdivide = wanted.acrossPost;
      }
    auto ranks = connectMesh();
    std::vector<std::string> calls;
    onEach(4, [&](unsigned rank) {
      at::set_num_threads(1);
      NcclRank &own = *ranks[rank];
      std::byte *arena = *(*own).makeArena(static_cast<size_t>(replicated.plan().arena_bytes));
      auto executor = Executor::create(replicated.plan(), *own.device, *own, arena);
      ASSERT_TRUE(executor.ok()) << executor.status().message();
      own.calls.take();
      EXPECT_TRUE((*executor)->step({.step = 1}).ok());
      if (rank == 1)
        for (const std::string &call : own.calls.take())
          if (call.starts_with("accumulate") || call.starts_with("ncclReduceScatter") ||
              call.starts_with("ncclAllReduce"))
            calls.push_back(call);
    });
    ASSERT_EQ(calls.size(), wanted.calls.size());
    for (size_t i = 0; i < calls.size(); ++i)
      EXPECT_THAT(calls[i], testing::StartsWith(wanted.calls[i]));
  }
}

// One process can stand in for all of them.
TEST(CudaReplicas, FakeOptions) {
  Replicated replicated;
  FakeOptions fake = fakeOptionsOf(PlanView(replicated.plan()));
  EXPECT_EQ(fake.ranks, 4u);
  EXPECT_EQ(fake.lanes, standardLanes(4, 2));
  EXPECT_EQ(fake.largestBlockBytes, 256u);
}
