//===- FakeTest.cpp - The collectives of ranks that are not there ---------===//

#include "comm/FakeCommunicator.h"
#include "comm/StandardLanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp::rt;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// Notes bytes that are copied and times that are waited, by lane.
struct Notes {
  std::vector<std::pair<unsigned, size_t>> copies;
  std::vector<unsigned> timers;
  std::vector<std::pair<unsigned, uint64_t>> times;
};

class NotingTransport final : public FakeTransport {
public:
  explicit NotingTransport(Notes &notes) : notes(notes) {}
  void prepare(unsigned numLanes) override { cpu->prepare(numLanes); }
  Result<std::unique_ptr<Memory>> allocate(size_t bytes) override { return cpu->allocate(bytes); }
  Status copy(unsigned lane, void *to, const void *from, size_t bytes) override {
    notes.copies.emplace_back(lane, bytes);
    return cpu->copy(lane, to, from, bytes);
  }
  Status startTimer(unsigned lane) override {
    notes.timers.push_back(lane);
    return {};
  }
  Status awaitTimer(unsigned lane, uint64_t nanoseconds) override {
    EXPECT_EQ(notes.timers.back(), lane);
    notes.times.emplace_back(lane, nanoseconds);
    return {};
  }

private:
  Notes &notes;
  std::unique_ptr<FakeTransport> cpu = makeCpuFakeTransport();
};

std::unique_ptr<Communicator> make(FakeOptions options, Notes &notes) {
  if (options.lanes.empty())
    options.lanes = standardLanes(options.ranks);
  return std::move(*FakeCommunicator::create(options, std::make_unique<NotingTransport>(notes)));
}

} // namespace

// A gather copies the own shard to every rank's place: to the own one only if it is not there.
TEST(FakeCommunicator, GatherCopies) {
  Notes notes;
  auto fake = make({.ranks = 4}, notes);
  EXPECT_EQ(fake->rank(), 0u);
  EXPECT_EQ(fake->size(), 4u);
  float shard[2] = {1, 2}, all[8] = {};
  EXPECT_TRUE(fake->allGather(kGatherLane, shard, all, 8).ok());
  EXPECT_THAT(all, ElementsAre(1, 2, 1, 2, 1, 2, 1, 2));
  EXPECT_EQ(notes.copies.size(), 4u);
  notes.copies.clear();
  all[0] = 9;
  EXPECT_TRUE(fake->allGather(kGatherLane, all, all, 8).ok());
  EXPECT_THAT(all, ElementsAre(9, 2, 9, 2, 9, 2, 9, 2));
  EXPECT_THAT(notes.copies,
              ElementsAre(std::pair(1u, 8ul), std::pair(1u, 8ul), std::pair(1u, 8ul)));
}

// A reduction moves what the other ranks would send, and gives the own block, as the average of
// equal blocks, of sums too; the input stays.
TEST(FakeCommunicator, ReduceCopies) {
  Notes notes;
  auto fake = make({.ranks = 3, .largestBlockBytes = 8}, notes);
  float input[6] = {1, 2, 3, 4, 5, 6}, output[2] = {};
  EXPECT_TRUE(fake->reduceScatter(kReduceLane, input, output, 2, FSDP_F32, ReduceOp::Average).ok());
  EXPECT_THAT(output, ElementsAre(1, 2));
  EXPECT_THAT(input, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(notes.copies.size(), 3u);
  EXPECT_TRUE(fake->reduceScatter(kReduceLane, input + 2, output, 2, FSDP_F32, ReduceOp::Sum).ok());
  EXPECT_THAT(output, ElementsAre(3, 4));
  EXPECT_THAT(fake->reduceScatterScaled(kReduceLane, input, output, 2, FSDP_F32, 0.5).message(),
              HasSubstr("no sums of scaled gradients"));
  EXPECT_THAT(fake->divide(kReduceLane, output, 2, FSDP_F32, 2).message(), HasSubstr("divides no gradients"));
  EXPECT_THAT(fake->reduceScatter(kReduceLane, input, output, 2, FSDP_F64, ReduceOp::Max).message(),
              HasSubstr("blocks of 16 bytes, but there is room for 8"));
}

// With a bandwidth a collective copies the same, and takes latency + arriving bytes / bandwidth.
TEST(FakeCommunicator, Times) {
  Notes notes;
  auto fake =
      make({.ranks = 5, .latencyNs = 1000, .bandwidthBytesPerSec = 2e9, .largestBlockBytes = 100},
           notes);
  char input[500] = {}, output[500];
  EXPECT_TRUE(fake->allGather(kGatherLane, input, output, 100).ok());
  EXPECT_TRUE(
      fake->reduceScatter(kReduceLane, input, output, 50, FSDP_BF16, ReduceOp::Average).ok());
  // 4 blocks of 100 bytes at 2 bytes per nanosecond.
  EXPECT_THAT(notes.times, ElementsAre(std::pair(1u, 1200ul), std::pair(2u, 1200ul)));
  EXPECT_EQ(notes.copies.size(), 10u);
}

// On a mesh of replicas a gather is one of shards, and an all-reduce moves 2 (n - 1) / n of its
// bytes over n replicas, in the time of as many.
TEST(FakeCommunicator, Replicas) {
  Notes notes;
  char data[800] = {};
  auto copying = make({.ranks = 8, .lanes = standardLanes(8, 4), .largestBlockBytes = 400}, notes);
  EXPECT_TRUE(copying->allGather(kGatherLane, data, data, 100).ok());
  EXPECT_TRUE(copying->allReduce(kReplicateLane, data, 100, FSDP_F32, ReduceOp::Average).ok());
  EXPECT_THAT(notes.copies,
              ElementsAre(std::pair(1u, 100ul), std::pair(3u, 100ul), std::pair(3u, 100ul),
                          std::pair(3u, 100ul), std::pair(3u, 100ul), std::pair(3u, 100ul),
                          std::pair(3u, 100ul)));
  // The gradients' norm.
  double own = 3;
  EXPECT_TRUE(copying->allReduce(kReduceLane, &own, 1, FSDP_F64, ReduceOp::Sum).ok());
  EXPECT_EQ(own, 3);
  auto timed = make({.ranks = 8,
                     .lanes = standardLanes(8, 4),
                     .latencyNs = 1000,
                     .bandwidthBytesPerSec = 1e9,
                     .largestBlockBytes = 100},
                    notes);
  EXPECT_TRUE(timed->allReduce(kReplicateLane, data, 100, FSDP_F32, ReduceOp::Average).ok());
  EXPECT_THAT(notes.times, ElementsAre(std::pair(3u, 1600ul)));
}

// The control lane moves host memory at once, without cost.
TEST(FakeCommunicator, ControlLane) {
  Notes notes;
  auto fake = make({.ranks = 3, .bandwidthBytesPerSec = 1}, notes);
  int own = 4, all[3] = {};
  EXPECT_TRUE(fake->allGather(kControlLane, &own, all, sizeof(own)).ok());
  EXPECT_THAT(all, ElementsAre(4, 4, 4));
  double value = 2;
  EXPECT_TRUE(fake->allReduce(kControlLane, &value, 1, FSDP_F64, ReduceOp::Max).ok());
  EXPECT_EQ(value, 2);
  EXPECT_FALSE(fake->allReduce(kControlLane, &value, 1, FSDP_F64, ReduceOp::Sum).ok());
  EXPECT_TRUE(fake->broadcast(kControlLane, &value, 8, 2).ok());
  EXPECT_TRUE(fake->barrier(kControlLane).ok());
  EXPECT_TRUE(notes.copies.empty() && notes.timers.empty());
}

TEST(FakeCommunicator, Arena) {
  Notes notes;
  auto fake = make({.ranks = 2}, notes);
  auto arena = fake->makeArena(100);
  ASSERT_TRUE(arena.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*arena) % 64, 0u);
  EXPECT_EQ((*arena)[99], std::byte(0));
  EXPECT_FALSE(fake->makeArena(100).ok());
}

TEST(FakeCommunicator, Abort) {
  Notes notes;
  auto fake = make({.ranks = 2}, notes);
  EXPECT_TRUE(fake->health().ok());
  fake->abort(Status::error("the loss is not a number"));
  fake->abort(Status::error("something else"));
  char data[4];
  EXPECT_EQ(
      fake->allGather(kGatherLane, data, data, 2).message(),
      "all_gather of 2 bytes on the gather lane: aborted by rank 0: the loss is not a number");
  EXPECT_FALSE(fake->health().ok());
}
