//===- ReplicasTest.cpp - Lanes between the ranks of one axis --------------===//

#include "Ranks.h"
#include "Values.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <sys/wait.h>
#include <thread>

using namespace fsdp::rt;

namespace {

/// A mesh of `replicas` x ranks.size / replicas.
struct Mesh {
  Ranks ranks;
  unsigned replicas;
  unsigned chunkRanks = 1;

  CommunicatorOptions options() const {
    return {.lanes = standardLanes(ranks.size, replicas, chunkRanks)};
  }
};

void PrintTo(const Mesh &mesh, std::ostream *stream) {
  PrintTo(mesh.ranks, stream);
  *stream << " as " << mesh.replicas << " replicas, " << mesh.chunkRanks << " on the chunk lane";
}

std::string nameOf(const testing::TestParamInfo<Mesh> &info) {
  const Mesh &mesh = info.param;
  return mesh.ranks.backend + std::to_string(mesh.replicas) + "x" +
         std::to_string(mesh.ranks.size / mesh.replicas) +
         (mesh.chunkRanks > 1 ? "Chunks" + std::to_string(mesh.chunkRanks) : "");
}

class Replicas : public testing::TestWithParam<Mesh> {
protected:
  void SetUp() override {
    if (std::string reason = whyNot(GetParam().ranks); !reason.empty())
      GTEST_SKIP() << reason;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, Replicas,
                         testing::Values(Mesh{{"local", 4}, 2}, Mesh{{"local", 6}, 2},
                                         Mesh{{"local", 6}, 3}, Mesh{{"local", 3}, 3},
                                         Mesh{{"shm", 4}, 2}, Mesh{{"shm", 6}, 3},
                                         Mesh{{"gloo", 4}, 2}, Mesh{{"nccl", 4}, 2},
                                         Mesh{{"local", 4}, 1, 2}, Mesh{{"local", 8}, 2, 2},
                                         Mesh{{"shm", 6}, 1, 3}, Mesh{{"gloo", 4}, 1, 2},
                                         Mesh{{"nccl", 4}, 1, 2}),
                         nameOf);

#define EXPECT_OK(expression)                                                                      \
  do {                                                                                             \
    Status statusOfExpression = (expression);                                                      \
    EXPECT_TRUE(statusOfExpression.ok()) << statusOfExpression.message();                          \
  } while (false)

/// What the ranks of a lane hold, in its order.
std::vector<at::Tensor> inputsOf(const LaneRanks &ranks, size_t count, unsigned salt) {
  std::vector<at::Tensor> inputs;
  for (unsigned i = 0; i < ranks.size; ++i)
    inputs.push_back(makeValues(count, FSDP_F32, ranks.at(i), /*exact=*/true, salt));
  return inputs;
}

void checkGather(Communicator &communicator, std::byte *output, size_t count, unsigned salt,
                 unsigned lane = kGatherLane) {
  LaneRanks ranks = communicator.ranksOf(lane);
  std::vector<at::Tensor> inputs = inputsOf(ranks, count, salt);
  size_t bytes = count * sizeof(float);
  std::byte *own = output + ranks.index * bytes;
  std::memcpy(own, inputs[ranks.index].const_data_ptr(), bytes);
  EXPECT_OK(communicator.allGather(lane, own, output, bytes));
  for (unsigned i = 0; i < ranks.size; ++i)
    EXPECT_EQ(difference(output + i * bytes, inputs[i]), "") << "block " << i;
}

void checkReduceScatter(Communicator &communicator, std::byte *input, size_t count, unsigned salt) {
  LaneRanks ranks = communicator.ranksOf(kReduceLane);
  std::vector<at::Tensor> inputs = inputsOf(ranks, ranks.size * count, salt), blocks;
  std::memcpy(input, inputs[ranks.index].const_data_ptr(), ranks.size * count * sizeof(float));
  std::vector<float> output(count);
  EXPECT_OK(communicator.reduceScatter(kReduceLane, input, output.data(), count, FSDP_F32,
                                       ReduceOp::Average));
  for (const at::Tensor &tensor : inputs)
    blocks.push_back(
        tensor.slice(0, int64_t(ranks.index * count), int64_t((ranks.index + 1) * count)));
  EXPECT_EQ(difference(output.data(), reduceWithTorch(blocks, ReduceOp::Average)), "");
}

void checkAllReduce(Communicator &communicator, unsigned lane, std::byte *data, size_t count,
                    unsigned salt) {
  LaneRanks ranks = communicator.ranksOf(lane);
  std::vector<at::Tensor> inputs = inputsOf(ranks, count, salt);
  std::memcpy(data, inputs[ranks.index].const_data_ptr(), count * sizeof(float));
  EXPECT_OK(communicator.allReduce(lane, data, count, FSDP_F32, ReduceOp::Average));
  EXPECT_EQ(difference(data, reduceWithTorch(inputs, ReduceOp::Average)), "");
}

constexpr size_t kArenaBytes = size_t(32) << 20;
const size_t kCounts[] = {1, 7, 4099, 270001};

} // namespace

// Ranks are numbered replica by replica: shards meet on the gather and reduce lanes, equal shards
// on the replicate lane, some neighbours on the chunk lane, everybody on the control lane.
TEST_P(Replicas, LaneRanks) {
  Mesh mesh = GetParam();
  onRanks(
      mesh.ranks,
      [&](Communicator &communicator) {
        unsigned rank = communicator.rank(), shards = mesh.ranks.size / mesh.replicas;
        EXPECT_EQ(communicator.numLanes(), 1 + mesh.options().lanes.size());
        for (unsigned lane = 0; lane < communicator.numLanes(); ++lane) {
          LaneRanks ranks = communicator.ranksOf(lane);
          EXPECT_EQ(ranks.at(ranks.index), rank);
          EXPECT_EQ(ranks.size, lane == kControlLane     ? mesh.ranks.size
                                : lane == kReplicateLane ? mesh.replicas
                                : lane == kChunkLane     ? mesh.chunkRanks
                                                         : shards);
          EXPECT_EQ(ranks.first, lane == kControlLane     ? 0
                                 : lane == kReplicateLane ? rank % shards
                                 : lane == kChunkLane     ? rank / mesh.chunkRanks * mesh.chunkRanks
                                                          : rank / shards * shards);
        }
      },
      mesh.options());
}

// Each lane's collectives are those of its ranks alone, whether inputs lie in the arena or not.
TEST_P(Replicas, EachLaneHasItsRanks) {
  Mesh mesh = GetParam();
  onRanks(
      mesh.ranks,
      [&](Communicator &communicator) {
        Result<std::byte *> arena = communicator.makeArena(kArenaBytes);
        ASSERT_TRUE(arena.ok()) << arena.status().message();
        std::vector<std::byte> heap(kArenaBytes);
        unsigned salt = 0;
        for (std::byte *memory : {*arena, heap.data()})
          for (size_t count : kCounts) {
            checkGather(communicator, memory, count, ++salt);
            checkReduceScatter(communicator, memory, count, ++salt);
            if (mesh.replicas > 1)
              checkAllReduce(communicator, kReplicateLane, memory, count, ++salt);
            if (mesh.chunkRanks > 1)
              checkGather(communicator, memory, count, ++salt, kChunkLane);
            checkAllReduce(communicator, kControlLane, memory, count, ++salt);
          }
        EXPECT_OK(communicator.barrier(mesh.replicas > 1 ? kReplicateLane : kControlLane));
      },
      mesh.options());
}

// Gathers, reductions, reductions over replicas and what the ranks tell each other are in flight
// together, each lane in an order of its own.
TEST_P(Replicas, LanesInFlight) {
  Mesh mesh = GetParam();
  onRanks(
      mesh.ranks,
      [&](Communicator &communicator) {
        Result<std::byte *> arena = communicator.makeArena(kArenaBytes);
        ASSERT_TRUE(arena.ok()) << arena.status().message();
        auto part = [&](unsigned lane) {
          return *arena + lane * (kArenaBytes / communicator.numLanes());
        };
        std::thread gathers([&] {
          for (unsigned i = 0; i < 30; ++i)
            checkGather(communicator, part(kGatherLane), 1 + i * 1511, i);
        });
        std::thread reductions([&] {
          for (unsigned i = 0; i < 30; ++i)
            checkReduceScatter(communicator, part(kReduceLane), 1 + i * 1009, i);
        });
        std::thread replicas([&] {
          for (unsigned i = 0; i < 30 && mesh.replicas > 1; ++i)
            checkAllReduce(communicator, kReplicateLane, part(kReplicateLane), 1 + i * 2003, i);
        });
        std::thread chunks([&] {
          for (unsigned i = 0; i < 30 && mesh.chunkRanks > 1; ++i)
            checkGather(communicator, part(kChunkLane), 1 + i * 1201, i, kChunkLane);
        });
        for (unsigned i = 0; i < 60; ++i)
          checkAllReduce(communicator, kControlLane, part(kControlLane), 3, i);
        gathers.join();
        reductions.join();
        replicas.join();
        chunks.join();
      },
      mesh.options());
}

// A rank that is killed fails the ranks of its replica, those of its shard, and those that never
// meet it but on the control lane.
TEST_P(Replicas, KilledRankFailsAll) {
  Mesh mesh = GetParam();
  if (mesh.ranks.backend != "shm" && mesh.ranks.backend != "gloo")
    GTEST_SKIP() << "ranks are no processes, or have no devices";
  unsigned victim = mesh.ranks.size - 1;
  RankProcesses processes(
      mesh.ranks,
      [&](Communicator &communicator) {
        std::vector<float> data(1000), all(1000 * mesh.ranks.size);
        Status status;
        for (unsigned i = 0; status.ok(); ++i) {
          if (i == 5 && communicator.rank() == victim)
            raise(SIGKILL);
          status = communicator.allGather(kGatherLane, data.data(), all.data(), 1000);
          if (status.ok())
            status = communicator.allReduce(mesh.replicas > 1 ? kReplicateLane : kReduceLane,
                                            data.data(), 1000, FSDP_F32, ReduceOp::Average);
        }
        EXPECT_NE(status.message(), "");
        EXPECT_FALSE(communicator.barrier(kControlLane).ok());
      },
      mesh.options());
  int status = processes.wait(victim);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}
