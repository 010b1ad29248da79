//===- InputStagingTest.cpp - Inputs on their way to a device -------------===//

#include "executor/InputStaging.h"
#include "RecordingCalls.h"
#include "cuda/CudaDevice.h"
#include "device/CpuDevice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

using namespace fsdp::rt;
using testing::ElementsAre;

namespace {
/// What compute finds at two places in each of `steps` steps, which may run `slots` - 1 ahead of
/// the host's wait for them.
std::vector<int> run(Device &device, unsigned slots, int steps) {
  auto compute = device.makeComputeStream();
  auto places = std::move(*device.allocate(128)), seen = std::move(*device.allocateHost(1024));
  auto inputs = std::move(
      *InputStaging::create(device, {{places->data(), 4}, {places->data() + 64, 4}}, slots));
  std::vector<std::unique_ptr<Event>> done(slots);
  for (auto &event : done)
    event = device.makeEvent();
  auto *numbers = reinterpret_cast<int *>(seen->data());
  for (int step = 0; step < steps; ++step) {
    Event &event = *done[static_cast<unsigned>(step) % slots];
    EXPECT_TRUE(event.synchronize().ok());
    int values[] = {step, -step};
    for (size_t part = 0; part < 2; ++part)
      std::memcpy(inputs->host(part), &values[part], sizeof(int));
    EXPECT_TRUE(inputs->enqueue(*compute).ok());
    for (size_t part = 0; part < 2; ++part)
      compute->copy(numbers + 2 * step + part, places->data() + 64 * part, sizeof(int));
    compute->record(event);
  }
  EXPECT_TRUE(compute->synchronize().ok());
  return {numbers, numbers + 2 * steps};
}
} // namespace

// Each step finds its own inputs.
TEST(InputStaging, InOrder) {
  CpuDevice cpu;
  EXPECT_THAT(run(cpu, 1, 3), ElementsAre(0, 0, 1, -1, 2, -2));
  EXPECT_THAT(run(cpu, 3, 4), ElementsAre(0, 0, 1, -1, 2, -2, 3, -3));
  RecordingCalls calls;
  auto cuda = std::move(*CudaDevice::open(calls, {}));
  EXPECT_THAT(run(*cuda, 2, 4), ElementsAre(0, 0, 1, -1, 2, -2, 3, -3));
}

// The copy from the host waits for nothing; compute waits for it and takes each part to its place.
TEST(InputStaging, Calls) {
  RecordingCalls calls;
  auto device = std::move(*CudaDevice::open(calls, {}));
  auto compute = device->makeComputeStream();
  auto places = std::move(*device->allocate(192));
  auto inputs = std::move(
      *InputStaging::create(*device, {{places->data(), 8}, {places->data() + 128, 4}}, 2));
  calls.take();
  for (int step = 0; step < 3; ++step)
    EXPECT_TRUE(inputs->enqueue(*compute).ok());
  std::vector<std::string> first = {"cudaMemcpyAsync m3 m2 128 s4", "cudaEventRecord e1 s4",
                                    "cudaStreamWaitEvent s1 e1", "cudaMemcpyAsync m1 m3 8 s1",
                                    "cudaMemcpyAsync m1+128 m3+64 4 s1"};
  std::vector<std::string> second = {
      "cudaMemcpyAsync m3+128 m2+128 128 s4", "cudaEventRecord e1 s4", "cudaStreamWaitEvent s1 e1",
      "cudaMemcpyAsync m1 m3+128 8 s1", "cudaMemcpyAsync m1+128 m3+192 4 s1"};
  std::vector<std::string> all = first;
  all.insert(all.end(), second.begin(), second.end());
  all.insert(all.end(), first.begin(), first.end());
  EXPECT_THAT(calls.take(), testing::ElementsAreArray(all));
}

TEST(InputStaging, Errors) {
  RecordingCalls calls;
  auto device = std::move(*CudaDevice::open(calls, {}));
  auto compute = device->makeComputeStream();
  auto places = std::move(*device->allocate(8));
  auto inputs = std::move(*InputStaging::create(*device, {{places->data(), 8}}, 1));
  calls.fail("cudaMemcpyAsync", cudaErrorLaunchFailure);
  EXPECT_EQ(inputs->enqueue(*compute).message(), "cudaMemcpyAsync: cuda error 719");
  for (const char *call : {"cudaHostAlloc", "cudaMalloc"}) {
    calls.fail(call, cudaErrorMemoryAllocation);
    EXPECT_EQ(InputStaging::create(*device, {{places->data(), 8}}, 2).status().message(),
              std::string(call) + " of 128 bytes: cuda error 2");
  }
}
