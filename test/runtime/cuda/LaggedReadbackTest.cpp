//===- LaggedReadbackTest.cpp - Results that are read some steps late -----===//

#include "device/LaggedReadback.h"
#include "RecordingCalls.h"
#include "cuda/CudaDevice.h"
#include "device/CpuDevice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

using namespace fsdp::rt;
using testing::ElementsAre;

namespace {
/// Runs `steps` steps whose results are their numbers, all at one place; what is read, in order,
/// with -1 for "not yet".
std::vector<int> run(Device &device, unsigned lag, int steps) {
  auto readback = std::move(*LaggedReadback::create(device, sizeof(int), lag));
  auto compute = device.makeComputeStream();
  auto result = std::move(*device.allocate(sizeof(int)));
  std::vector<int> read;
  auto add = [&](const Result<const std::byte *> &bytes) {
    EXPECT_TRUE(bytes.ok());
    read.push_back(-1);
    if (*bytes)
      std::memcpy(&read.back(), *bytes, sizeof(int));
    return *bytes != nullptr;
  };
  for (int step = 1; step <= steps; ++step) {
    compute->copy(result->data(), &step, sizeof(step));
    readback->enqueue(*compute, result->data());
    add(readback->next());
  }
  while (add(readback->drain()))
    ;
  return read;
}
} // namespace

// Each result is read once, in order, `lag` steps late; the rest after the last step.
TEST(LaggedReadback, InOrder) {
  CpuDevice cpu;
  EXPECT_THAT(run(cpu, 0, 3), ElementsAre(1, 2, 3, -1));
  EXPECT_THAT(run(cpu, 2, 5), ElementsAre(-1, -1, 1, 2, 3, 4, 5, -1));
  EXPECT_THAT(run(cpu, 7, 2), ElementsAre(-1, -1, 1, 2, -1));
  RecordingCalls calls;
  auto cuda = std::move(*CudaDevice::open(calls, {}));
  EXPECT_THAT(run(*cuda, 2, 5), ElementsAre(-1, -1, 1, 2, 3, 4, 5, -1));
}

// On a device the host waits for an event of an earlier step, and for nothing else.
TEST(LaggedReadback, Calls) {
  RecordingCalls calls;
  auto device = std::move(*CudaDevice::open(calls, {}));
  auto readback = std::move(*LaggedReadback::create(*device, 8, 1));
  auto stream = device->makeComputeStream();
  auto loss = std::move(*device->allocate(8));
  calls.take();
  for (int step = 0; step < 3; ++step) {
    readback->enqueue(*stream, loss->data());
    EXPECT_TRUE(readback->next().ok());
  }
  EXPECT_THAT(calls.take(), ElementsAre("cudaMemcpyAsync m1 m2 8 s1", "cudaEventRecord e1 s1",
                                        "cudaMemcpyAsync m1+8 m2 8 s1", "cudaEventRecord e2 s1",
                                        "cudaEventSynchronize e1", "cudaMemcpyAsync m1 m2 8 s1",
                                        "cudaEventRecord e1 s1", "cudaEventSynchronize e2"));
}

// What fails on the way is found when the result is read.
TEST(LaggedReadback, Errors) {
  RecordingCalls calls;
  auto device = std::move(*CudaDevice::open(calls, {}));
  auto readback = std::move(*LaggedReadback::create(*device, 8, 0));
  auto stream = device->makeComputeStream();
  calls.fail("cudaEventSynchronize", cudaErrorLaunchFailure);
  char loss[8];
  readback->enqueue(*stream, loss);
  EXPECT_EQ(readback->next().status().message(), "cudaEventSynchronize: cuda error 719");
  calls.fail("cudaHostAlloc", cudaErrorMemoryAllocation);
  EXPECT_EQ(LaggedReadback::create(*device, 8, 3).status().message(),
            "cudaHostAlloc of 32 bytes: cuda error 2");
}
