//===- NcclFaultTest.cpp - NCCL that fails, stalls or is aborted ----------===//

#include "NcclRanks.h"
#include "watch/Watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp::rt;
using std::chrono::milliseconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// Connected ranks with a stream on each lane.
struct Running {
  explicit Running(unsigned size) : ranks(connectRanks(size)) {
    for (auto &rank : ranks)
      for (unsigned lane : {kGatherLane, kReduceLane}) {
        streams.push_back(rank->device->makeStream("s"));
        (**rank).useStream(lane, *streams.back());
        rank->calls.take();
      }
  }
  NcclCommunicator &operator[](unsigned rank) { return **ranks[rank]; }

  std::vector<std::unique_ptr<NcclRank>> ranks;
  std::vector<std::unique_ptr<Stream>> streams;
};

} // namespace

// Whatever call fails while the ranks connect, every rank ends with an error that says which.
TEST(NcclFaults, Connecting) {
  const std::pair<const char *, const char *> faults[] = {
      {"ncclGetUniqueId", "ncclGetUniqueId: nccl error 2"},
      {"ncclCommInitRankConfig", "NCCL cannot connect the 2 ranks: nccl error 2"},
      {"ncclCommGetAsyncError", "NCCL cannot connect the 2 ranks: nccl error 2"},
      {"ncclCommSplit", "NCCL cannot make the communicator of the gather lane: nccl error 2"},
  };
  for (const auto &[function, message] : faults) {
    auto ranks = connectRanks(2, {}, [&](unsigned rank, RecordingCalls &calls) {
      if (rank == 0)
        calls.fail(function, ncclSystemError);
      else // the peer would wait for rank 0
        calls.setAsyncState(UINT32_MAX, ncclSuccess);
    });
    EXPECT_EQ(ranks[0]->communicator.status().message(), message);
    EXPECT_FALSE(ranks[1]->communicator.ok()) << function;
  }
}

// A rank that never gets ready is an error after the connect timeout, and what was begun is
// aborted.
TEST(NcclFaults, ConnectTimeout) {
  NcclOptions options;
  options.communication.connectTimeout = milliseconds(20);
  auto ranks = connectRanks(1, options, [](unsigned, RecordingCalls &calls) {
    calls.fail("ncclCommInitRankConfig", ncclInProgress);
    calls.setAsyncState(UINT32_MAX, ncclSuccess);
  });
  EXPECT_EQ(ranks[0]->communicator.status().message(),
            "NCCL cannot connect the 1 ranks within 0.02 s");
  EXPECT_EQ(ranks[0]->calls.take().back(), "ncclCommAbort c1");
}

// A state of error ends the waiting.
TEST(NcclFaults, ConnectError) {
  auto ranks = connectRanks(
      1, {}, [](unsigned, RecordingCalls &calls) { calls.setAsyncState(2, ncclRemoteError); });
  EXPECT_EQ(ranks[0]->communicator.status().message(),
            "NCCL cannot connect the 1 ranks: nccl error 6");
}

// A collective that cannot be enqueued aborts the run: every lane's communicator, and then the
// first one; the peer learns the reason from the control lane.
TEST(NcclFaults, FailedEnqueue) {
  Running running(2);
  running.ranks[0]->calls.fail("ncclAllGather", ncclUnhandledCudaError);
  char data[64];
  EXPECT_EQ(running[0].allGather(kGatherLane, data, data, 32).message(),
            "all_gather of 32 bytes on the gather lane: nccl error 1");
  EXPECT_THAT(running.ranks[0]->calls.take(),
              ElementsAre("ncclAllGather elsewhere elsewhere 32 1 c2 s1", "ncclCommAbort c2",
                          "ncclCommAbort c3", "ncclCommAbort c1"));
  Status later = running[0].reduceScatter(kReduceLane, data, data, 4, FSDP_F32, ReduceOp::Sum);
  EXPECT_EQ(later.message(),
            "reduce_scatter of 4 f32 (sum) on the reduce lane: aborted by rank 0: all_gather of 32 "
            "bytes on the gather lane: nccl error 1");
  EXPECT_THAT(
      running[1].health().message(),
      HasSubstr("aborted by rank 0: all_gather of 32 bytes on the gather lane: nccl error"));
  // After an abort nothing is flushed or freed twice.
  running.ranks[0]->communicator = Status::error("gone");
  EXPECT_THAT(running.ranks[0]->calls.take(), ElementsAre());
}

// An asynchronous error of either lane is found by looking.
TEST(NcclFaults, AsynchronousError) {
  Running running(2);
  EXPECT_TRUE(running[0].health().ok());
  EXPECT_THAT(running.ranks[0]->calls.take(),
              ElementsAre("ncclCommGetAsyncError c2", "ncclCommGetAsyncError c3"));
  running.ranks[0]->calls.setAsyncState(0, ncclRemoteError);
  EXPECT_EQ(running[0].health().message(), "NCCL on the gather lane: nccl error 6");
  running.ranks[0]->calls.setAsyncState(1, ncclInternalError);
  EXPECT_EQ(running[0].health().message(), "NCCL on the reduce lane: nccl error 3");
}

// An operator that cannot be made fails the collective that needs it.
TEST(NcclFaults, FailedOperator) {
  Running running(1);
  running.ranks[0]->calls.fail("ncclRedOpCreatePreMulSum", ncclInvalidArgument);
  char data[64];
  EXPECT_THAT(running[0].reduceScatterScaled(kReduceLane, data, data, 4, FSDP_F32, 0.5).message(),
              HasSubstr("nccl error 4"));
}

// Only the first abort counts.
TEST(NcclFaults, AbortsOnce) {
  Running running(1);
  running[0].abort(Status::error("the loss is not a number"));
  running[0].abort(Status::error("something else"));
  EXPECT_EQ(running[0].health().message(), "aborted by rank 0: the loss is not a number");
  EXPECT_THAT(running.ranks[0]->calls.take(),
              ElementsAre("ncclCommAbort c2", "ncclCommAbort c3", "ncclCommAbort c1"));
}

// A call that hangs inside NCCL does not keep an abort from reaching it.
TEST(NcclFaults, AbortsWhatHangs) {
  Running running(1);
  std::atomic<bool> inside{false}, aborted{false};
  running.ranks[0]->calls.onCall = [&](const std::string &function) {
    if (function == "ncclAllGather") {
      inside = true;
      inside.notify_all();
      aborted.wait(false);
    } else if (function == "ncclCommAbort") {
      aborted = true;
      aborted.notify_all();
    }
  };
  char data[8];
  std::thread step([&] { (void)running[0].allGather(kGatherLane, data, data, 8).ok(); });
  inside.wait(false);
  running[0].abort(Status::error("the peer is gone"));
  step.join();
  EXPECT_EQ(running[0].health().message(), "aborted by rank 0: the peer is gone");
}
