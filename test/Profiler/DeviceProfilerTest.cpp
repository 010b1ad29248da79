//===- DeviceProfilerTest.cpp - A step's costs on a recorded device -------===//

#include "StepProfiler.h"

#include "../runtime/cuda/RecordingCalls.h"
#include "Steps.h"
#include "cuda/CudaFakeTransport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::profile;
using testing::HasSubstr;

namespace {

/// A device whose every call takes a microsecond of the time that its events tell.
class RecordedBackend final : public rt::DeviceBackend {
public:
  rt::Result<unsigned> countDevices() override { return rt::CudaDevice::count(calls); }
  rt::Result<std::string> nameDevice(unsigned ordinal) override {
    return rt::CudaDevice::nameOf(calls, static_cast<int>(ordinal));
  }
  rt::Result<std::unique_ptr<rt::Device>> openDevice(rt::DeviceOptions options) override {
    auto device = rt::CudaDevice::open(
        calls, {.ordinal = static_cast<int>(options.ordinal), .timedEvents = options.timedEvents});
    if (!device.ok())
      return device.status();
    return std::unique_ptr<rt::Device>(std::move(*device));
  }
  rt::Result<std::unique_ptr<rt::Communicator>>
  connectDevices(rt::Device &, std::unique_ptr<rt::Communicator>, rt::NcclOptions) override {
    return rt::Status::error("one device");
  }
  rt::Result<std::unique_ptr<rt::Communicator>>
  makeFakeCommunicator(rt::Device &device, rt::FakeOptions options) override {
    return rt::FakeCommunicator::create(
        options, std::make_unique<rt::CudaFakeTransport>(static_cast<rt::CudaDevice &>(device)));
  }
  size_t count(const std::string &prefix) {
    return static_cast<size_t>(std::ranges::count_if(
        lines, [&](const std::string &line) { return line.starts_with(prefix); }));
  }
  void take() { lines = calls.take(); }

  rt::RecordingCalls calls;
  std::vector<std::string> lines;
};

StepOfFile embeddingStep(int64_t ranks) {
  return readStep("tools/Inputs/embedding_step.mlir", ranks);
}

std::string failureOf(const std::string &function, int error, unsigned nth = 1) {
  RecordedBackend backend;
  backend.calls.fail(function, error, nth);
  llvm::Expected<cost::Profile> profile = profileOnDevice(embeddingStep(2).planned, backend, 2);
  return profile ? "none" : llvm::toString(profile.takeError());
}

} // namespace

// Each entry has the time between its own two events, without what its step was delayed by so that
// the host could issue ahead: of a call that torch makes a microsecond, its last event's; of an
// update that and its two kernels', of a copy that and its own.
TEST(DeviceProfiler, TimesEntriesByEvents) {
  RecordedBackend backend;
  constexpr int kSamples = 3;
  llvm::Expected<cost::Profile> profile =
      profileOnDevice(embeddingStep(2).planned, backend, kSamples);
  ASSERT_TRUE(bool(profile)) << llvm::toString(profile.takeError());
  EXPECT_EQ(profile->ranks, 1);
  ASSERT_EQ(profile->calls.size(), 12u);
  for (const cost::ProfiledCall &call : profile->calls) {
    EXPECT_NEAR(call.medianNs, 1000, 1) << call.key.str();
    EXPECT_EQ(call.samples, kSamples) << call.key.str();
  }
  // A shard of both parameters, 96 elements, by one kernel.
  ASSERT_EQ(profile->updates.size(), 1u);
  ASSERT_EQ(profile->updates[0].durations.size(), 1u);
  EXPECT_EQ(profile->updates[0].durations[0].size, 96);
  EXPECT_NEAR(profile->updates[0].durations[0].medianNs, 3000, 1);
  ASSERT_EQ(profile->copies.size(), 7u);
  EXPECT_EQ(profile->copies[0].size, 4096);
  EXPECT_EQ(profile->copies[6].size, 16 << 20);
  for (const cost::SizedDuration &copy : profile->copies)
    EXPECT_NEAR(copy.medianNs, 2000, 1);
  EXPECT_NEAR(profile->step.callsNs, 12000, 12);
  // A delay takes more: the first entry of a step gathers.
  EXPECT_GT(profile->step.collectivesNs, 0);
  EXPECT_LT(profile->step.collectivesNs, 50000);
  EXPECT_GT(profile->step.durationNs, 0);
}

// Measured steps are delayed, at their beginning and every 32 entries; warm-ups are not. The steps
// whose durations count are not either: they become one graph.
TEST(DeviceProfiler, IssuesAheadOnlyWhatIsMeasured) {
  RecordedBackend backend;
  constexpr size_t kSamples = 3, kWarmUps = 3, kSizes = 7;
  StepOfFile step = embeddingStep(2);
  size_t entries = 0;
  for (const fsdp_entry &entry : step.planned.tables.entries)
    entries += entry.kind != FSDP_VIEW && entry.kind != FSDP_RELEASE && !entry.coalesced;
  llvm::Expected<cost::Profile> profile = profileOnDevice(step.planned, backend, kSamples);
  ASSERT_TRUE(bool(profile)) << llvm::toString(profile.takeError());
  backend.take();
  size_t chunks = (entries + 31) / 32;
  EXPECT_EQ(backend.count("delay "), kSamples * chunks + kSizes);
  EXPECT_EQ(backend.count("cudaStreamBeginCapture"), 1u);
  // Copies have memory when the step's is free: all but their own.
  auto pool = std::ranges::find(backend.lines, "cudaMalloc " + std::to_string(512 << 20));
  ASSERT_NE(pool, backend.lines.end());
  auto startsWith = [](const char *prefix) {
    return [prefix](const std::string &line) { return line.starts_with(prefix); };
  };
  EXPECT_EQ(std::count_if(backend.lines.begin(), pool, startsWith("cudaMalloc ")),
            std::count_if(backend.lines.begin(), pool, startsWith("cudaFree ")));
  // The first of them runs with everything placed before the graph is captured.
  EXPECT_EQ(backend.count("cudaGraphLaunch"), kWarmUps + kSamples - 1);
}

// Generated kernels of a step for GPUs are launched, and are calls of CUDA as all others.
TEST(DeviceProfiler, TimesKernels) {
  RecordedBackend backend;
  StepOfFile step = readStep("tools/Inputs/embedding_step.mlir", 2, FusionChoice::Auto,
                             [](mlir::ModuleOp module) {
                               module->setAttr(FsdpDialect::getTargetAttrName(),
                                               TargetAttr::get(module.getContext(), Target::Cuda));
                             });
  fsdp_plan plan = step.planned.getPlan();
  ASSERT_GT(plan.num_kernels, 0u);
  backend.calls.plan = &plan;
  llvm::Expected<cost::Profile> profile = profileOnDevice(step.planned, backend, 3);
  ASSERT_TRUE(bool(profile)) << llvm::toString(profile.takeError());
  ASSERT_FALSE(profile->kernels.empty());
  for (const cost::ProfiledKernel &kernel : profile->kernels) {
    EXPECT_EQ(kernel.key.rounding, Rounding::Fast) << kernel.key.str();
    // Elapsed times are floats: on a slow host delays are long, and the last digits coarse.
    EXPECT_NEAR(kernel.medianNs, 2000, 200) << kernel.key.str();
    EXPECT_EQ(kernel.samples % 3, 0) << kernel.key.str();
  }
  EXPECT_GT(profile->step.kernelsNs, 0);
}

// Temporaries inside operators are those of the executor's own measurement.
TEST(DeviceProfiler, FindsTemporaries) {
  RecordedBackend backend;
  StepOfFile step = readStep("Inputs/llama.mlir", 2);
  llvm::Expected<cost::Profile> profile = profileOnDevice(step.planned, backend, 1);
  ASSERT_TRUE(bool(profile)) << llvm::toString(profile.takeError());
  int64_t largest = 0;
  for (const cost::ProfiledCall &call : profile->calls)
    largest = std::max(largest, call.temporaryBytes);
  EXPECT_GT(largest, 0);
  EXPECT_EQ(profile->step.scratchBytes, largest);
}

// What CUDA refuses ends the profile with the call's name.
TEST(DeviceProfiler, TellsOfFailures) {
  EXPECT_THAT(failureOf("cudaSetDevice", cudaErrorInvalidDevice), HasSubstr("cudaSetDevice"));
  EXPECT_THAT(failureOf("cudaMalloc", cudaErrorMemoryAllocation), HasSubstr("cudaMalloc of"));
  EXPECT_EQ(failureOf("delay", cudaErrorLaunchFailure), "the kernel delay: cuda error 719");
  EXPECT_THAT(failureOf("cudaEventElapsedTime", cudaErrorInvalidValue),
              HasSubstr("cudaEventElapsedTime"));
  EXPECT_EQ(failureOf("none", 0), "none");
}
