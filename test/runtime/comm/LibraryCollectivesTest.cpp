//===- LibraryCollectivesTest.cpp - Collectives of a shared library --------===//

#include "comm/LibraryCollectives.h"
#include "Ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <stdexcept>
#include <thread>

using namespace fsdp::rt;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;

namespace {

fsdp_collectives table(fsdp_run_collective gather, fsdp_run_collective scatter = nullptr,
                       fsdp_run_collective reduce = nullptr) {
  return {FSDP_COLLECTIVES_ABI_VERSION, "test", gather, scatter, reduce};
}

int passOn(const fsdp_collective *collective, char *, uint64_t) {
  return collective->otherwise(collective);
}

/// Runs `body` on each of two ranks of this process, whose collectives are the library's.
void onTwoRanks(const fsdp_collectives &library, const std::function<void(Communicator &)> &body,
                milliseconds deadline = std::chrono::seconds(60)) {
  CommunicatorOptions options{.lanes = standardLanes(2, 1, 1), .deadline = deadline};
  std::vector<std::thread> threads;
  for (std::unique_ptr<Communicator> &own : makeLocalCommunicators(2, options))
    threads.emplace_back([&, communicator = std::shared_ptr(makeLibraryCommunicator(
                                 std::move(own), library, deadline))] { body(*communicator); });
  for (std::thread &thread : threads)
    thread.join();
}

constexpr unsigned kLane = kControlLane + 1;

// What is passed on has the communicator's result.
TEST(LibraryCollectives, PassesOn) {
  onTwoRanks(table(passOn, passOn, passOn), [](Communicator &communicator) {
    const float own[2] = {1.0F + communicator.rank(), 10.0F};
    float all[4] = {}, part[1] = {};
    EXPECT_TRUE(communicator.allGather(kLane, own, all, sizeof(own)).ok());
    EXPECT_THAT(all, testing::ElementsAre(1, 10, 2, 10));
    EXPECT_TRUE(communicator.reduceScatter(kLane, own, part, 1, FSDP_F32, ReduceOp::Average).ok());
    EXPECT_EQ(part[0], communicator.rank() == 0 ? 1.5F : 10.0F);
    float scaled[2] = {2, 4};
    EXPECT_TRUE(communicator.reduceScatterScaled(kLane, scaled, part, 1, FSDP_F32, 0.5).ok());
    EXPECT_EQ(part[0], communicator.rank() == 0 ? 2.0F : 4.0F);
    int64_t largest = communicator.rank();
    EXPECT_TRUE(communicator.allReduce(kLane, &largest, 1, FSDP_I64, ReduceOp::Max).ok());
    EXPECT_EQ(largest, 1);
  });
}

// The library is told which reduction is asked for: of the control's largest numbers, and of
// others.
TEST(LibraryCollectives, NamesReductions) {
  auto reduce = [](const fsdp_collective *collective, char *, uint64_t) {
    *static_cast<int64_t *>(collective->output) =
        10 * collective->takes_max + (collective->reduce_op == FSDP_AVERAGE);
    return 0;
  };
  onTwoRanks(table(nullptr, nullptr, reduce), [](Communicator &communicator) {
    int64_t value = 5;
    for (auto [op, expected] : {std::pair(ReduceOp::Max, 10), std::pair(ReduceOp::Sum, 0),
                                std::pair(ReduceOp::Average, 1)}) {
      EXPECT_TRUE(communicator.allReduce(kLane, &value, 1, FSDP_I64, op).ok());
      EXPECT_EQ(value, expected);
    }
  });
}

// The library is told who meets and what moves; what it writes is the result.
TEST(LibraryCollectives, DoesItself) {
  onTwoRanks(table([](const fsdp_collective *collective, char *, uint64_t) {
               EXPECT_EQ(collective->ranks, 2U);
               EXPECT_EQ(collective->first, 0U);
               EXPECT_EQ(collective->stride, 1U);
               EXPECT_STREQ(collective->lane, "gather");
               EXPECT_STREQ(collective->group, "layers.0");
               EXPECT_EQ(collective->dtype, uint32_t(FSDP_U8));
               EXPECT_EQ(collective->count, 1U);
               EXPECT_EQ(collective->has_failed(collective), 0);
               auto *output = static_cast<char *>(collective->output);
               output[0] = 7;
               output[1] = static_cast<char>(collective->rank);
               return 0;
             }),
             [](Communicator &communicator) {
               char own = 0, all[2] = {};
               communicator.setGroup(kLane, "layers.0");
               EXPECT_TRUE(communicator.allGather(kLane, &own, all, 1).ok());
               EXPECT_EQ(all[0], 7);
               EXPECT_EQ(all[1], static_cast<char>(communicator.rank()));
               // The control lane is the communicator's.
               EXPECT_TRUE(communicator.allGather(kControlLane, &own, all, 1).ok());
               EXPECT_EQ(all[0], 0);
             });
}

// Errors name the library, the collective, the lane and the rank.
TEST(LibraryCollectives, Errors) {
  onTwoRanks(
      table(
          [](const fsdp_collective *, char *error, uint64_t bytes) {
            std::snprintf(error, bytes, "no route\nto anywhere");
            return 3;
          },
          [](const fsdp_collective *, char *, uint64_t) -> int {
            throw std::runtime_error("lost");
          },
          [](const fsdp_collective *, char *, uint64_t) { return 1; }),
      [](Communicator &communicator) {
        const std::string rank = std::to_string(communicator.rank());
        float own = 0, all[2] = {};
        EXPECT_EQ(communicator.allGather(kLane, &own, all, sizeof(own)).message(),
                  "collectives 'test', all_gather on the gather lane at rank " + rank +
                      ": no route");
        EXPECT_EQ(
            communicator.reduceScatter(kLane, all, &own, 1, FSDP_F32, ReduceOp::Sum).message(),
            "collectives 'test', reduce_scatter on the gather lane at rank " + rank +
                ": it throws: lost");
        EXPECT_EQ(communicator.allReduce(kLane, &own, 1, FSDP_F32, ReduceOp::Sum).message(),
                  "collectives 'test', all_reduce on the gather lane at rank " + rank +
                      ": it gives no reason");
      });
}

// The error of an aborted run names the peer that aborts it, not the library.
TEST(LibraryCollectives, AbortOfPeer) {
  onTwoRanks(table(passOn), [](Communicator &communicator) {
    char own = 0, all[2] = {};
    if (communicator.rank() == 1)
      return communicator.abort(Status::error("enough"));
    EXPECT_EQ(communicator.allGather(kLane, &own, all, 1).message(),
              "all_gather of 1 bytes on the gather lane: aborted by rank 1: enough");
  });
}

/// Ends calls that hang when the test is over.
std::promise<void> over;
std::shared_future<void> isOver = over.get_future().share();

// A library that hangs is an error when the deadline has passed.
TEST(LibraryCollectives, Deadline) {
  onTwoRanks(
      table([](const fsdp_collective *, char *, uint64_t) {
        isOver.wait();
        return 0;
      }),
      [](Communicator &communicator) {
        static char own = 0, all[2] = {};
        EXPECT_THAT(communicator.allGather(kLane, &own, all, 1).message(),
                    HasSubstr("no answer within 1 ms"));
      },
      milliseconds(1));
  over.set_value();
}

TEST(LibraryCollectives, Loading) {
  EXPECT_THAT(loadCollectives("/nowhere/lib.so").status().message(),
              StartsWith("--collectives /nowhere/lib.so: "));
}

} // namespace
