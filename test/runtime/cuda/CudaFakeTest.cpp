//===- CudaFakeTest.cpp - Fake collectives on a device --------------------===//

#include "RecordingCalls.h"
#include "comm/StandardLanes.h"
#include "cuda/CudaFakeTransport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp::rt;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// A fake communicator with streams s3 (gather) and s4 (reduce), and an arena m3.
struct Fake {
  explicit Fake(FakeOptions options) {
    options.lanes = standardLanes(options.ranks);
    device = std::move(*CudaDevice::open(calls, {}));
    communicator =
        std::move(*FakeCommunicator::create(options, std::make_unique<CudaFakeTransport>(*device)));
    gather = device->makeStream("fsdp-gather");
    reduce = device->makeStream("fsdp-reduce");
    EXPECT_TRUE(communicator->useStream(kGatherLane, *gather));
    EXPECT_TRUE(communicator->useStream(kReduceLane, *reduce));
    EXPECT_FALSE(communicator->useStream(kControlLane, *reduce));
    arena = *communicator->makeArena(4096);
    calls.take();
  }

  RecordingCalls calls;
  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Stream> gather, reduce;
  std::byte *arena = nullptr;
};

} // namespace

// Arriving bytes are copies within the device on the lane's stream, in place where the input is.
TEST(CudaFake, Copies) {
  Fake fake({.ranks = 3, .largestBlockBytes = 64});
  EXPECT_TRUE(fake.communicator->allGather(kGatherLane, fake.arena, fake.arena, 256).ok());
  EXPECT_TRUE(fake.communicator
                  ->reduceScatter(kReduceLane, fake.arena + 1024, fake.arena + 2048, 16, FSDP_F32,
                                  ReduceOp::Average)
                  .ok());
  EXPECT_THAT(fake.calls.take(),
              ElementsAre("cudaMemcpyAsync m3+256 m3 256 s3", "cudaMemcpyAsync m3+512 m3 256 s3",
                          "cudaMemcpyAsync m2 m3+1088 64 s4", "cudaMemcpyAsync m2 m3+1152 64 s4",
                          "cudaMemcpyAsync m3+2048 m3+1024 64 s4"));
}

// The time of a collective counts from where its stream gets there, and includes the copies.
TEST(CudaFake, Times) {
  Fake fake({.ranks = 3, .latencyNs = 500, .bandwidthBytesPerSec = 1e9});
  EXPECT_TRUE(fake.communicator->allGather(kGatherLane, fake.arena, fake.arena, 256).ok());
  EXPECT_THAT(fake.calls.take(),
              ElementsAre("startTimer 1 s3", "cudaMemcpyAsync m3+256 m3 256 s3",
                          "cudaMemcpyAsync m3+512 m3 256 s3", "awaitTimer 1 1012 s3"));
}

// A copy or timer that cannot be launched is the collective's error, and the stream's.
TEST(CudaFake, FailedLaunch) {
  for (const char *call : {"startTimer", "cudaMemcpyAsync", "awaitTimer"}) {
    Fake fake({.ranks = 2, .bandwidthBytesPerSec = 1e9});
    fake.calls.fail(call, cudaErrorLaunchFailure);
    Status status = fake.communicator->allGather(kGatherLane, fake.arena, fake.arena, 256);
    EXPECT_THAT(status.message(), HasSubstr("cuda error 719"));
    EXPECT_EQ(fake.gather->synchronize().message(), status.message());
    EXPECT_TRUE(fake.reduce->synchronize().ok());
  }
}

// Memory for arriving blocks that cannot be had is an error at once.
TEST(CudaFake, FailedAllocation) {
  RecordingCalls calls;
  auto device = std::move(*CudaDevice::open(calls, {}));
  calls.fail("cudaMalloc", cudaErrorMemoryAllocation, 2);
  auto made =
      FakeCommunicator::create({.ranks = 2, .lanes = standardLanes(2), .largestBlockBytes = 77},
                               std::make_unique<CudaFakeTransport>(*device));
  EXPECT_EQ(made.status().message(), "cudaMalloc of 77 bytes: cuda error 2");
}
