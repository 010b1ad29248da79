//===- MemoryUseTest.cpp - Memory that loading and saving take ------------===//
//
// Every rank has one shard, of a parameter that all of them share. The test limits the private
// memory that all ranks together may allocate beside their shards.
//
//===----------------------------------------------------------------------===//

#include "Files.h"
#include "checkpoint/Weights.h"
#include "comm/StandardLanes.h"
#include "device/CpuDevice.h"
#include "train/CheckpointSaver.h"
#include "train/Checkpoints.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <pthread.h>
#include <sys/resource.h>
#include <thread>

using namespace fsdp::rt;
using namespace fsdp::test;

namespace {

constexpr int64_t kMiB = 1 << 20, kShardBytes = 64 * kMiB, kShardElements = kShardBytes / 4;
/// Of a rank's threads: their stacks count, and their heaps.
constexpr int64_t kStackBytes = kMiB / 4, kThreadsBytes = 2 * kMiB;
constexpr int64_t kStagingBytes = 4 * kMiB;

/// A step of one parameter, which its ranks divide evenly.
class OneParameter {
public:
  explicit OneParameter(unsigned ranks) : size(ranks * kShardElements) {
    for (unsigned rank = 0; rank < ranks; ++rank)
      pieces.push_back({rank, 0, rank * kShardElements, kShardElements, 0});
    group.dtype = group.gather_dtype = group.reduce_dtype = FSDP_F32;
    group.num_parameters = 1;
    group.shards = ranks;
    group.shard_elements = group.trained_elements = kShardElements;
    std::ranges::fill(group.state, -1);
    parameter.name = 1;
    parameter.dtype = FSDP_F32;
    parameter.num_dims = 1;
    parameter.num_pieces = ranks;
    tables.strings = "\0p";
    tables.world_size = ranks;
    tables.replicas = 1;
    tables.optimizer.kind = FSDP_SGD;
    tables.groups = &group;
    tables.num_groups = 1;
    tables.parameters = &parameter;
    tables.num_parameters = 1;
    tables.pieces = pieces.data();
    tables.num_pieces = ranks;
    tables.integers = &size;
    tables.num_integers = 1;
    tables.arena_bytes = kShardBytes;
  }
  OneParameter(const OneParameter &) = delete;
  PlanView view() const { return PlanView(tables); }

private:
  const int64_t size;
  std::vector<fsdp_piece> pieces;
  fsdp_group group{};
  fsdp_parameter parameter{};
  fsdp_plan tables{};
};

/// Private memory that may be written, as the kernel counts it for the limit.
rlim_t usedBytes() {
  rlim_t used = 0;
  std::string word;
  for (std::ifstream status("/proc/self/status"); status >> word;)
    if (word == "VmData:")
      status >> used;
  return used * 1024;
}

/// The ranks of a run, each a thread with its shard.
class ShardedRun {
public:
  using Work = std::function<Status(unsigned rank, Communicator &communicator, std::byte *arena)>;

  explicit ShardedRun(unsigned ranks)
      : communicators(makeLocalCommunicators(ranks, {.lanes = standardLanes(ranks)})) {
    for (unsigned rank = 0; rank < ranks; ++rank)
      arenas.emplace_back(kShardBytes, std::byte(rank + 1));
  }

  /// Has each rank do its work within `bytes` of memory beside what there is before.
  void within(int64_t bytes, const Work &work) {
    const size_t ranks = arenas.size();
    std::barrier<> gate(static_cast<std::ptrdiff_t>(ranks + 1));
    std::vector<std::thread> threads;
    for (unsigned rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        // The thread has its heap before the limit is there.
        std::vector<std::byte>(1024, std::byte(1)).swap(touched);
        gate.arrive_and_wait();
        gate.arrive_and_wait();
        Status status;
        EXPECT_NO_THROW(status = work(rank, *communicators[rank], arenas[rank].data()));
        EXPECT_TRUE(status.ok()) << "rank " << rank << ": " << status.message();
      });
    gate.arrive_and_wait();
    rlimit before{}, tight{};
    EXPECT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
    tight = before;
    tight.rlim_cur = usedBytes() + ranks * static_cast<rlim_t>(bytes);
    EXPECT_EQ(setrlimit(RLIMIT_DATA, &tight), 0);
    gate.arrive_and_wait();
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(setrlimit(RLIMIT_DATA, &before), 0);
  }

  bool holds(unsigned rank, std::byte value) const {
    return std::ranges::all_of(arenas[rank], [&](std::byte byte) { return byte == value; });
  }
  void clear() {
    for (std::vector<std::byte> &arena : arenas)
      std::ranges::fill(arena, std::byte(0));
  }

private:
  static thread_local std::vector<std::byte> touched;
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<std::vector<std::byte>> arenas; // by rank
};
thread_local std::vector<std::byte> ShardedRun::touched;

Manifest manifestOfRanks(unsigned ranks) {
  Manifest manifest;
  manifest.model = "one";
  manifest.fingerprint = "0123456789abcdef";
  manifest.optimizer = "sgd";
  manifest.ranks = ranks;
  manifest.replicas = 1;
  manifest.step = manifest.steps = 1;
  manifest.schedule = "constant";
  manifest.learningRate = 0.1;
  return manifest;
}

/// Saves the ranks' state within `bytes` each.
void save(ShardedRun &run, unsigned ranks, const TrainOptions &options, int64_t bytes) {
  OneParameter step(ranks);
  run.within(bytes, [&](unsigned, Communicator &communicator, std::byte *arena) {
    PlanView plan = step.view();
    CpuDevice device;
    CheckpointSaver saver(plan, options, device, communicator);
    if (Status status = saver.prepare(); !status.ok())
      return status;
    if (Outcome outcome = saver.save(manifestOfRanks(ranks), arena, nullptr); !outcome.status.ok())
      return outcome.status;
    return saver.finish().status;
  });
}

class MemoryUse : public testing::TestWithParam<unsigned> {
public:
  static void SetUpTestSuite() {
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_attr_init(&attributes), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
    ASSERT_EQ(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, MemoryUse, testing::Values(1, 2, 4),
                         testing::PrintToStringParamName());

// A rank that has its arena needs no tenth of its shard beside it, however large a parameter is.
TEST_P(MemoryUse, OfWeights) {
  const int64_t bytes = GetParam() * kShardBytes;
  const std::string header = R"({"p":{"dtype":"F32","shape":[)" + std::to_string(bytes / 4) +
                             R"(],"data_offsets":[0,)" + std::to_string(bytes) + "]}}";
  Folder folder;
  std::string path = folder.write("w.safetensors", safetensorsBytes(header, ""));
  std::filesystem::resize_file(path, 8 + header.size() + static_cast<size_t>(bytes));
  OneParameter step(GetParam());
  ShardedRun run(GetParam());
  run.within(kShardBytes / 10, [&](unsigned rank, Communicator &, std::byte *arena) -> Status {
    auto files = WeightsFiles::open(path);
    if (!files.ok())
      return files.status();
    std::unique_ptr<Stream> stream = CpuDevice().makeStream("weights");
    return loadWeights(step.view(), rank, *stream, arena, nullptr, *files);
  });
  for (unsigned rank = 0; rank < GetParam(); ++rank)
    EXPECT_TRUE(run.holds(rank, std::byte(0))) << rank;
}

// A save in place allocates one buffer. A save in the background allocates a copy of the shard. A
// rank that resumes allocates less than a tenth of its shard, as a rank that loads weights does.
TEST_P(MemoryUse, OfCheckpoints) {
  const unsigned ranks = GetParam();
  for (bool isInPlace : {true, false}) {
    Folder folder;
    TrainOptions options;
    options.quiet = true;
    options.checkpointDir = folder.path("run");
    options.saveInPlace = isInPlace;
    std::filesystem::create_directory(options.checkpointDir);
    ShardedRun run(ranks);
    save(run, ranks, options, (isInPlace ? kStagingBytes : kShardBytes) + kThreadsBytes);
    run.clear();
    options.resume = "";
    OneParameter step(ranks);
    run.within(kShardBytes / 10, [&](unsigned, Communicator &communicator, std::byte *arena) {
      PlanView plan = step.view();
      CpuDevice device;
      Checkpoints checkpoints(plan, options, device, communicator);
      if (Outcome outcome = checkpoints.open(); !outcome.status.ok())
        return outcome.status;
      EXPECT_EQ(checkpoints.step(), 1);
      return checkpoints.restore(arena, nullptr).status;
    });
    for (unsigned rank = 0; rank < ranks; ++rank)
      EXPECT_TRUE(run.holds(rank, std::byte(rank + 1))) << rank;
  }
}

} // namespace
