//===- NetworkProfilerTest.cpp - Collectives on recorded devices ----------===//

#include "NetworkProfiler.h"

#include "../runtime/cuda/NcclRanks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::profile;
using testing::HasSubstr;

namespace {

constexpr int kSamples = 3;

NetworkOptions smallNetwork() {
  return {.largestBytes = 32 << 10,
          .contentionBytes = 16 << 10,
          .arenaBytes = 256 << 10,
          .productSize = 16,
          .samples = kSamples};
}

/// Two ranks on devices whose every call takes a microsecond of the time that events tell.
class Ranks {
public:
  Ranks() : ranks(rt::connectRanks(2)) {}

  /// On each rank at the same time; as a training binary would, it aborts when it fails.
  std::vector<rt::Result<cost::Network>> measure(const NetworkOptions &options) {
    std::vector<rt::Result<cost::Network>> networks(2, rt::Status::error("not measured"));
    rt::onEach(2, [&](unsigned rank) {
      rt::NcclRank &own = *ranks[rank];
      networks[rank] = measureNetwork(*own.device, *own, options);
      if (!networks[rank].ok())
        (*own).abort(networks[rank].status());
    });
    return networks;
  }
  rt::RecordingCalls &callsOf(unsigned rank) { return ranks[rank]->calls; }

private:
  std::vector<std::unique_ptr<rt::NcclRank>> ranks;
};

} // namespace

// Each size is timed on the compute stream: from before its lane waits for it to after it has
// waited for the lane. Those are the lane's two calls around NCCL's, NCCL's own, the two waits and
// the last event.
TEST(NetworkProfiler, TimesCollectivesByEvents) {
  Ranks ranks;
  auto networks = ranks.measure(smallNetwork());
  for (const auto &network : networks) {
    ASSERT_TRUE(network.ok()) << network.status().message();
    ASSERT_EQ(network->measured.size(), 2u);
    for (const cost::MeasuredCollective &collective : network->measured) {
      EXPECT_EQ(collective.ranks, 2);
      ASSERT_EQ(collective.durations.size(), 3u);
      for (int64_t i = 0; i < 3; ++i) {
        EXPECT_EQ(collective.durations[i].size, 8192 << i);
        EXPECT_EQ(collective.durations[i].samples, kSamples);
        EXPECT_NEAR(collective.durations[i].medianNs, 6000, 1);
      }
      EXPECT_NEAR(collective.latencyNs, 6000, 1);
      EXPECT_NEAR(collective.nsPerByte, 0, 1e-4);
    }
    EXPECT_TRUE(network->coalesces);
    EXPECT_EQ(network->measured[0].kind, cost::CollectiveKind::AllGather);
    EXPECT_EQ(network->measured[1].kind, cost::CollectiveKind::ReduceScatter);
    // Two lanes take 11 calls where one takes 6.
    EXPECT_NEAR(network->contention.lanes, 11.0 / 6, 1e-3);
  }
  // A warm-up round and one that is issued ahead, of each size and of ten trials of contention.
  std::vector<std::string> calls = ranks.callsOf(0).take();
  auto count = [&](const std::string &prefix) {
    return std::ranges::count_if(calls,
                                 [&](const std::string &call) { return call.starts_with(prefix); });
  };
  EXPECT_EQ(count("delay "), 2 * 3 + 10);
  EXPECT_EQ(count("ncclAllGather "), 2 * kSamples * (3 + 5));
  EXPECT_EQ(count("ncclReduceScatter "), 2 * kSamples * (3 + 4));
  EXPECT_EQ(count("cuStreamWriteValue32 "), 2 * kSamples * (2 * 3 + 10));
}

// The ranks know the slowest one's times.
TEST(NetworkProfiler, TakesTheSlowestRank) {
  Ranks ranks;
  ranks.callsOf(1).callNs = 2000;
  for (const auto &network : ranks.measure(smallNetwork())) {
    ASSERT_TRUE(network.ok()) << network.status().message();
    for (const cost::MeasuredCollective &collective : network->measured)
      for (const cost::SizedDuration &duration : collective.durations)
        EXPECT_NEAR(duration.medianNs, 12000, 1);
  }
}

// A collective that hangs ends all ranks.
TEST(NetworkProfiler, EndsWhatHangs) {
  Ranks ranks;
  ranks.callsOf(1).hang("ncclReduceScatter", 5);
  NetworkOptions options = smallNetwork();
  options.deadline = std::chrono::milliseconds(200);
  auto networks = ranks.measure(options);
  EXPECT_EQ(networks[1].status().message(),
            "a measured collective has not completed within 200 ms");
  EXPECT_THAT(networks[0].status().message(),
              HasSubstr("aborted by rank 1: a measured collective"));
}

// So does one that NCCL refuses, and memory that there is not.
TEST(NetworkProfiler, TellsOfFailures) {
  for (auto [function, named] :
       {std::pair("ncclAllGather", "all_gather of 4096 bytes on the gather lane"),
        std::pair("cudaEventElapsedTime", "cudaEventElapsedTime"),
        std::pair("cudaHostAlloc", "cudaHostAlloc")}) {
    Ranks ranks;
    ranks.callsOf(0).fail(function, 1);
    auto networks = ranks.measure(smallNetwork());
    EXPECT_THAT(networks[0].status().message(), HasSubstr(named));
    EXPECT_FALSE(networks[1].ok());
  }
}
