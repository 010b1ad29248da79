//===- NcclCommunicatorTest.cpp - The calls behind collectives of GPUs ----===//

#include "NcclRanks.h"
#include "cuda/CudaBackend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp::rt;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// Two connected ranks, of which the test uses both; streams s1 (gather) and s2 (reduce) on each.
struct Connected {
  explicit Connected(unsigned size, NcclOptions options = {}) : ranks(connectRanks(size, options)) {
    for (auto &rank : ranks) {
      streams.push_back(rank->device->makeStream("fsdp-gather"));
      streams.push_back(rank->device->makeStream("fsdp-reduce"));
      EXPECT_TRUE((**rank).useStream(kGatherLane, *streams[streams.size() - 2]));
      EXPECT_TRUE((**rank).useStream(kReduceLane, *streams.back()));
      rank->calls.take();
    }
  }
  NcclCommunicator &operator[](unsigned rank) { return **ranks[rank]; }
  std::vector<std::string> take(unsigned rank) { return ranks[rank]->calls.take(); }

  std::vector<std::unique_ptr<NcclRank>> ranks;
  std::vector<std::unique_ptr<Stream>> streams;
};

} // namespace

// The first communicator is non-blocking and waited for; the lanes are split from it, blocking.
// Only rank 0 makes the identity, which all use.
TEST(NcclCommunicator, Connect) {
  auto ranks = connectRanks(2);
  ASSERT_TRUE(ranks[0]->communicator.ok() && ranks[1]->communicator.ok());
  EXPECT_EQ((**ranks[1]).rank(), 1u);
  EXPECT_EQ((**ranks[1]).size(), 2u);
  EXPECT_THAT(ranks[0]->calls.take(),
              ElementsAre("ncclGetUniqueId",
                          "ncclCommInitRankConfig ranks=2 rank=0 id=7 blocking=0",
                          "ncclCommGetAsyncError c1", "ncclCommSplit c1 color=0 key=0 blocking=1",
                          "ncclCommGetAsyncError c1", "ncclCommGetAsyncError c2",
                          "ncclCommSplit c1 color=0 key=0 blocking=1", "ncclCommGetAsyncError c1",
                          "ncclCommGetAsyncError c3"));
  EXPECT_THAT(ranks[1]->calls.take(),
              ElementsAre("ncclCommInitRankConfig ranks=2 rank=1 id=7 blocking=0",
                          "ncclCommGetAsyncError c1", "ncclCommSplit c1 color=0 key=1 blocking=1",
                          "ncclCommGetAsyncError c1", "ncclCommGetAsyncError c2",
                          "ncclCommSplit c1 color=0 key=1 blocking=1", "ncclCommGetAsyncError c1",
                          "ncclCommGetAsyncError c3"));
}

// A communicator that is not ready yet is asked again.
// Collectives of several communicators must start in one order on all ranks, or they may deadlock.
TEST(NcclCommunicator, StartsInTheOrderOfIssue) {
  const char *name = "NCCL_LAUNCH_ORDER_IMPLICIT";
  RecordingCalls calls;
  auto callsOfDevice = [&]() -> CudaCalls & { return calls; };
  ASSERT_EQ(unsetenv(name), 0);
  CudaBackend backend(callsOfDevice);
  EXPECT_STREQ(getenv(name), "1");
  ASSERT_EQ(setenv(name, "0", 1), 0);
  CudaBackend ofAUser(callsOfDevice);
  EXPECT_STREQ(getenv(name), "0");
  unsetenv(name);
}

TEST(NcclCommunicator, ConnectPolls) {
  auto ranks = connectRanks(2, {}, [](unsigned, RecordingCalls &calls) {
    calls.fail("ncclCommInitRankConfig", ncclInProgress);
    calls.fail("ncclCommSplit", ncclInProgress);
    calls.setAsyncState(3, ncclSuccess);
  });
  ASSERT_TRUE(ranks[0]->communicator.ok()) << ranks[0]->communicator.status().message();
  auto calls = ranks[0]->calls.take();
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "ncclCommGetAsyncError c1"), 3 + 3);
}

// An end in order flushes and frees every communicator once; the arena last.
TEST(NcclCommunicator, Disconnect) {
  Connected connected(2);
  onEach(2, [&](unsigned rank) { EXPECT_TRUE(connected[rank].makeArena(5000).ok()); });
  connected.take(0);
  connected.ranks[0]->communicator = Status::error("gone");
  EXPECT_THAT(connected.take(0),
              ElementsAre("ncclCommWindowDeregister c2 w1", "ncclCommWindowDeregister c3 w2",
                          "ncclCommFinalize c2", "ncclCommDestroy c2", "ncclCommFinalize c3",
                          "ncclCommDestroy c3", "ncclCommFinalize c1", "ncclCommGetAsyncError c1",
                          "ncclCommDestroy c1", "ncclMemFree m1"));
}

//===----------------------------------------------------------------------===//
// Arena
//===----------------------------------------------------------------------===//

// The arena is NCCL's memory, whole pages of it, zeroed, and a symmetric window (flag 1) of both
// lanes.
TEST(NcclCommunicator, Arena) {
  Connected connected(2);
  onEach(2, [&](unsigned rank) {
    auto arena = connected[rank].makeArena(5000);
    ASSERT_TRUE(arena.ok()) << arena.status().message();
    EXPECT_EQ((*arena)[4999], std::byte(0));
    EXPECT_EQ(connected[rank].arenaNote(), "ncclMemAlloc, symmetric windows");
    EXPECT_EQ(connected[rank].makeArena(5000).status().message(), "the arena was made before");
  });
  EXPECT_THAT(connected.take(1),
              ElementsAre("ncclMemAlloc 8192", "cudaStreamCreateWithPriority 1 0",
                          "cudaMemsetAsync m1 0 8192 s3", "cudaStreamSynchronize s3",
                          "cudaStreamDestroy s3", "ncclCommWindowRegister c2 m1 8192 1",
                          "ncclCommWindowRegister c3 m1 8192 1"));
}

// One rank that has no memory of NCCL's takes plain memory, and no rank registers windows.
TEST(NcclCommunicator, ArenaWithoutNcclMemory) {
  Connected connected(2);
  connected.ranks[1]->calls.fail("ncclMemAlloc", ncclSystemError);
  onEach(2, [&](unsigned rank) { EXPECT_TRUE(connected[rank].makeArena(100).ok()); });
  EXPECT_EQ(connected[0].arenaNote(), "no symmetric windows: rank 1 has no memory of NCCL's");
  EXPECT_EQ(connected[1].arenaNote(), "plain device memory: ncclMemAlloc: nccl error 2");
  EXPECT_THAT(connected.take(0), testing::Not(testing::Contains(HasSubstr("WindowRegister"))));
  connected.take(1);
  connected.ranks[1]->communicator = Status::error("gone");
  EXPECT_THAT(connected.take(1), testing::Contains("cudaFree m1"));
}

// Windows that one rank does not get are no one's.
TEST(NcclCommunicator, ArenaWithoutWindows) {
  Connected connected(2);
  connected.ranks[1]->calls.supportsWindows = false;
  onEach(2, [&](unsigned rank) { EXPECT_TRUE(connected[rank].makeArena(100).ok()); });
  EXPECT_EQ(connected[0].arenaNote(), "no symmetric windows: rank 1 has none");
  EXPECT_EQ(connected[1].arenaNote(),
            "no symmetric windows: NCCL does not support them between these devices");
  EXPECT_THAT(connected.take(0), testing::IsSupersetOf({"ncclCommWindowDeregister c2 w1",
                                                        "ncclCommWindowDeregister c3 w2"}));
}

// A registration that fails is no reason to fail.
TEST(NcclCommunicator, ArenaWhoseWindowFails) {
  Connected connected(2);
  connected.ranks[0]->calls.fail("ncclCommWindowRegister", ncclInvalidUsage, 2);
  onEach(2, [&](unsigned rank) { EXPECT_TRUE(connected[rank].makeArena(100).ok()); });
  EXPECT_EQ(connected[0].arenaNote(), "no symmetric windows: nccl error 5");
  EXPECT_THAT(connected.take(0), testing::Contains("ncclCommWindowDeregister c2 w1"));
}

TEST(NcclCommunicator, ArenasOfDifferentSizes) {
  Connected connected(2);
  onEach(2, [&](unsigned rank) {
    EXPECT_THAT(connected[rank].makeArena(rank ? 200 : 100).status().message(),
                HasSubstr("arenas differ: rank "));
  });
}

// No memory on one rank is an error on all, with the reason.
TEST(NcclCommunicator, NoMemoryForTheArena) {
  Connected connected(2);
  connected.ranks[1]->calls.fail("ncclMemAlloc", ncclUnhandledCudaError);
  connected.ranks[1]->calls.fail("cudaMalloc", cudaErrorMemoryAllocation);
  onEach(2, [&](unsigned rank) {
    std::string message = connected[rank].makeArena(5000).status().message();
    EXPECT_THAT(message, HasSubstr("no device memory for the arena: cudaMalloc of 8192 bytes"));
  });
}

//===----------------------------------------------------------------------===//
// Copy-engine gathers
//===----------------------------------------------------------------------===//

/// Beside the lane of gathers by kernels one of gathers by copy engines, which comes last.
static NcclOptions withCopyEngines(bool oneHost) {
  std::vector<LaneShape> lanes = standardLanes(2);
  lanes.push_back({"gather by copy engines", 2, 1, /*byCopyEngine=*/true});
  return {.communication = {.lanes = lanes}, .oneHost = oneHost};
}

// The lane of copy engines alone gets the zero-CTA policy.
TEST(NcclCommunicator, CopyEngineGathers) {
  Connected connected(2, withCopyEngines(/*oneHost=*/true));
  auto fresh = connectRanks(2, withCopyEngines(/*oneHost=*/true));
  std::vector<std::string> splits = fresh[0]->calls.take();
  std::erase_if(splits, [](const std::string &call) { return !call.starts_with("ncclCommSplit"); });
  EXPECT_THAT(splits, ElementsAre("ncclCommSplit c1 color=0 key=0 blocking=1",
                                  "ncclCommSplit c1 color=0 key=0 blocking=1",
                                  "ncclCommSplit c1 color=0 key=0 blocking=1 zero-CTA"));
  onEach(2, [&](unsigned rank) { EXPECT_TRUE(connected[rank].makeArena(100).ok()); });
}

// Both lanes of gathers may be on one stream, where they keep the order of issue.
TEST(NcclCommunicator, CopyEngineGathersShareTheStream) {
  Connected connected(2, withCopyEngines(/*oneHost=*/true));
  constexpr unsigned kCopyLane = kReduceLane + 1;
  std::byte *arena[2] = {};
  onEach(2, [&](unsigned rank) {
    EXPECT_TRUE(connected[rank].useStream(kCopyLane, *connected.streams[2 * rank]));
    arena[rank] = *connected[rank].makeArena(8192);
  });
  connected.take(0);
  onEach(2, [&](unsigned rank) {
    for (unsigned lane : {kGatherLane, kCopyLane, kGatherLane})
      EXPECT_TRUE(connected[rank].allGather(lane, arena[rank], arena[rank] + 512, 64).ok());
  });
  std::vector<std::string> gathers = connected.take(0);
  std::erase_if(gathers,
                [](const std::string &call) { return !call.starts_with("ncclAllGather"); });
  ASSERT_EQ(gathers.size(), 3u);
  EXPECT_THAT(gathers[0], HasSubstr("c2"));
  EXPECT_THAT(gathers[1], HasSubstr("c4"));
  auto streamOf = [](const std::string &call) { return call.substr(call.rfind(' ')); };
  EXPECT_EQ(streamOf(gathers[0]), streamOf(gathers[1]));
  EXPECT_EQ(gathers[2], gathers[0]);
}

// Without windows NCCL would silently gather by kernels: that is refused, as are several hosts.
TEST(NcclCommunicator, CopyEngineGathersNeedWindows) {
  Connected connected(2, withCopyEngines(/*oneHost=*/true));
  for (auto &rank : connected.ranks)
    rank->calls.supportsWindows = false;
  onEach(2, [&](unsigned rank) {
    EXPECT_THAT(connected[rank].makeArena(100).status().message(),
                testing::AllOf(
                    HasSubstr("gather by copy engines, which NCCL does in symmetric windows only"),
                    HasSubstr("compile it with --transport kernels")));
  });
  for (auto &rank : connectRanks(2, withCopyEngines(/*oneHost=*/false)))
    EXPECT_THAT(
        rank->communicator.status().message(),
        HasSubstr("gather by copy engines, which NCCL does between devices of one host only, "
                  "but the ranks run on several: compile it with --transport kernels"));
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

// Each lane has its communicator and its stream; gathers move bytes (type 1) in place where they
// are. Types and operators are NCCL's numbers.
TEST(NcclCommunicator, Collectives) {
  Connected connected(2);
  std::byte *arena = nullptr;
  onEach(2, [&](unsigned rank) {
    auto made = connected[rank].makeArena(8192);
    if (rank == 1)
      arena = *made;
  });
  connected.take(1);
  NcclCommunicator &one = connected[1];
  EXPECT_TRUE(one.allGather(kGatherLane, arena + 64, arena, 64).ok());
  EXPECT_TRUE(
      one.reduceScatter(kReduceLane, arena, arena + 64, 16, FSDP_F32, ReduceOp::Average).ok());
  EXPECT_TRUE(one.reduceScatter(kReduceLane, arena, arena, 8, FSDP_BF16, ReduceOp::Sum).ok());
  EXPECT_TRUE(one.reduceScatter(kReduceLane, arena, arena, 8, FSDP_F16, ReduceOp::Max).ok());
  EXPECT_TRUE(one.allReduce(kReduceLane, arena, 2, FSDP_F64, ReduceOp::Sum).ok());
  EXPECT_TRUE(one.broadcast(kGatherLane, arena, 40, 1).ok());
  EXPECT_TRUE(one.allGather(kGatherLane, arena, arena, 0).ok());
  EXPECT_THAT(
      connected.take(1),
      ElementsAre("ncclAllGather m1+64 m1 64 1 c2 s1", "ncclReduceScatter m1 m1+64 16 7 4 c3 s2",
                  "ncclReduceScatter m1 m1 8 9 0 c3 s2", "ncclReduceScatter m1 m1 8 6 2 c3 s2",
                  "ncclAllReduce m1 m1 2 8 0 c3 s2", "ncclBroadcast m1 m1 40 1 1 c2 s1"));
}

// A scaled sum's operator is made once per lane, type and factor, with the factor in that type, and
// destroyed at the end.
TEST(NcclCommunicator, ScaledSums) {
  Connected connected(1);
  NcclCommunicator &one = connected[0];
  char data[64];
  for (fsdp_dtype dtype : {FSDP_F32, FSDP_F32, FSDP_F64, FSDP_F16, FSDP_BF16})
    EXPECT_TRUE(one.reduceScatterScaled(kReduceLane, data, data, 4, dtype, 0.25).ok());
  EXPECT_FALSE(one.reduceScatterScaled(kReduceLane, data, data, 4, FSDP_I32, 0.25).ok());
  EXPECT_THAT(connected.take(0), ElementsAre("ncclRedOpCreatePreMulSum 3e800000 7 c3",
                                             "ncclReduceScatter elsewhere elsewhere 4 7 5 c3 s2",
                                             "ncclReduceScatter elsewhere elsewhere 4 7 5 c3 s2",
                                             "ncclRedOpCreatePreMulSum 3fd0000000000000 8 c3",
                                             "ncclReduceScatter elsewhere elsewhere 4 8 6 c3 s2",
                                             "ncclRedOpCreatePreMulSum 3400 6 c3",
                                             "ncclReduceScatter elsewhere elsewhere 4 6 7 c3 s2",
                                             "ncclRedOpCreatePreMulSum 3e80 9 c3",
                                             "ncclReduceScatter elsewhere elsewhere 4 9 8 c3 s2"));
  connected.ranks[0]->communicator = Status::error("gone");
  auto calls = connected.take(0);
  EXPECT_EQ(
      std::count_if(calls.begin(), calls.end(),
                    [](const std::string &call) { return call.starts_with("ncclRedOpDestroy"); }),
      4);
}

// What a rank divides by itself is multiplied by the reciprocal, by a kernel on the lane's stream.
TEST(NcclCommunicator, Divisions) {
  Connected connected(1);
  NcclCommunicator &one = connected[0];
  std::vector<float> data = {3, 6};
  EXPECT_TRUE(one.divide(kReduceLane, data.data(), data.size(), FSDP_F32, 1.5).ok());
  EXPECT_THAT(connected.take(0),
              ElementsAre(testing::MatchesRegex("accumulate .* 6 .* 6 .* 2 s2")));
  EXPECT_TRUE(connected.streams[1]->synchronize().ok());
  EXPECT_THAT(data, ElementsAre(3 * (1 / 1.5f), 6 * (1 / 1.5f)));
  EXPECT_FALSE(one.divide(kReplicateLane, data.data(), data.size(), FSDP_F32, 2).ok());
}

// The control lane moves the host's memory, without NCCL.
TEST(NcclCommunicator, ControlLane) {
  Connected connected(2);
  onEach(2, [&](unsigned rank) {
    int64_t all[2] = {}, own = rank + 5;
    EXPECT_TRUE(connected[rank].allGather(kControlLane, &own, all, sizeof(own)).ok());
    EXPECT_EQ(all[0], 5);
    EXPECT_EQ(all[1], 6);
    EXPECT_TRUE(connected[rank].allReduce(kControlLane, &own, 1, FSDP_I64, ReduceOp::Sum).ok());
    EXPECT_EQ(own, 11);
    EXPECT_FALSE(connected[rank].useStream(kControlLane, *connected.streams[0]));
  });
  EXPECT_THAT(connected.take(0), ElementsAre());
}

// A barrier waits for what the lane's stream has been given.
TEST(NcclCommunicator, Barrier) {
  Connected connected(2);
  onEach(2, [&](unsigned rank) { EXPECT_TRUE(connected[rank].barrier(kReduceLane).ok()); });
  EXPECT_THAT(connected.take(0), ElementsAre("cudaStreamSynchronize s2"));
}

TEST(NcclCommunicator, RefusesWhatHasNoMeaning) {
  auto ranks = connectRanks(1);
  NcclCommunicator &one = **ranks[0];
  int64_t data[2] = {};
  EXPECT_EQ(one.barrier(3).message(), "collective on lane 3, but there are 3 lanes");
  EXPECT_EQ(one.allGather(kGatherLane, data, data, 8).message(),
            "all_gather of 8 bytes on the gather lane: the lane has no stream");
  EXPECT_THAT(one.allReduce(kReduceLane, data, 1, FSDP_I64, ReduceOp::Average).message(),
              HasSubstr("no average of i64 between ranks"));
  EXPECT_THAT(one.broadcast(kGatherLane, data, 8, 1).message(), HasSubstr("there are 1 ranks"));
}
