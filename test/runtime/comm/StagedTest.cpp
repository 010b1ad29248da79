//===- StagedTest.cpp - The adapter between devices and the conformance suite ===//

#include "StagedCommunicator.h"
#include "device/CpuDevice.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

using namespace fsdp::rt;

// Over a CPU, whose memory both sides see, collectives outside, inside and across the arena give
// what the communicator itself gives.
TEST(StagedCommunicator, CopiesThereAndBack) {
  auto communicators = makeLocalCommunicators(2, {.lanes = standardLanes(2)});
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      StagedCommunicator staged(std::make_unique<CpuDevice>(), std::move(communicators[rank]));
      auto made = staged.makeArena(1024);
      ASSERT_TRUE(made.ok());
      auto *arena = reinterpret_cast<float *>(*made);
      float outside[4] = {1.0f + static_cast<float>(rank), 2, 3, 4};
      // From outside into the arena, then in place, then out again.
      EXPECT_TRUE(staged.allGather(kGatherLane, outside, arena, 8).ok());
      EXPECT_EQ(arena[0], 1);
      EXPECT_EQ(arena[2], 2);
      arena[2 * rank + 1] = 7 + static_cast<float>(rank);
      EXPECT_TRUE(staged.allGather(kGatherLane, arena + 2 * rank, arena, 8).ok());
      EXPECT_EQ(arena[1], 7);
      EXPECT_EQ(arena[3], 8);
      float sum = 0;
      EXPECT_TRUE(
          staged.reduceScatter(kReduceLane, outside, &sum, 1, FSDP_F32, ReduceOp::Sum).ok());
      EXPECT_EQ(sum, rank == 0 ? 3 : 4);
      EXPECT_TRUE(
          staged.reduceScatter(kReduceLane, arena, arena + rank, 1, FSDP_F32, ReduceOp::Average)
              .ok());
      EXPECT_EQ(arena[rank], rank == 0 ? 1 : 7);
      EXPECT_TRUE(staged.allReduce(kReduceLane, outside, 1, FSDP_F32, ReduceOp::Max).ok());
      EXPECT_EQ(outside[0], 2);
      EXPECT_TRUE(staged.broadcast(kGatherLane, outside, 4, 1).ok());
      EXPECT_TRUE(staged.barrier(kControlLane).ok());
    });
  for (std::thread &thread : threads)
    thread.join();
}
