//===- KernelArgumentsTest.cpp - Geometry, checks and records of kernels --===//

#include "RecordingCalls.h"

#include <gmock/gmock.h>

using namespace fsdp::rt;
using testing::ElementsAre;

namespace {
/// Arguments that are valid; the memory is never touched.
struct Buffers {
  float floats[16] = {};
  double doubles[4] = {};
  OptimizerInputs inputs{};
  OptimizerScalars scalars{};

  OptimizerUpdateArguments update() {
    return {FSDP_ADAMW, 4,        floats,   floats + 4, FSDP_F32, {floats + 8, floats + 12},
            nullptr,    FSDP_F32, &scalars, nullptr};
  }
  PartialNormArguments partialNorm() { return {floats, FSDP_BF16, 4, doubles}; }
  AverageArguments average() { return {floats, FSDP_F32, floats + 8, FSDP_BF16, 0.1f, &inputs, 4}; }
  AccumulateArguments accumulate() { return {floats, FSDP_F32, 1, floats + 8, FSDP_BF16, 0.5, 4}; }
};
} // namespace

TEST(KernelGeometryTest, ElementwiseKernelsHaveABlockPerWorkUpToABound) {
  EXPECT_EQ(elementwiseBlocks(1, 4, 132), 1);
  EXPECT_EQ(elementwiseBlocks(1024, 4, 132), 1);
  EXPECT_EQ(elementwiseBlocks(1025, 4, 132), 2);
  EXPECT_EQ(elementwiseBlocks(int64_t(1) << 40, 4, 132), 32 * 132);
}

TEST(KernelGeometryTest, PartialNormsDependOnTheSizeAlone) {
  EXPECT_EQ(partialNormBlocks(0), 0);
  EXPECT_EQ(partialNormBlocks(1), 1);
  EXPECT_EQ(partialNormBlocks(4096), 1);
  EXPECT_EQ(partialNormBlocks(4097), 2);
  EXPECT_EQ(partialNormBlocks(int64_t(1) << 40), 1024);
}

TEST(KernelArgumentsTest, UpdatesNeedTheirBuffersAndKnownDtypes) {
  Buffers memory;
  EXPECT_EQ(checkArguments(memory.update()), cudaSuccess);
  auto refused = [&](auto change) {
    OptimizerUpdateArguments arguments = memory.update();
    change(arguments);
    return checkArguments(arguments) == cudaErrorInvalidValue;
  };
  using Arguments = OptimizerUpdateArguments;
  EXPECT_TRUE(refused([](Arguments &a) { a.kind = 3; }));
  EXPECT_TRUE(refused([](Arguments &a) { a.elements = -1; }));
  EXPECT_TRUE(refused([](Arguments &a) { a.parameters = nullptr; }));
  EXPECT_TRUE(refused([](Arguments &a) { a.gradients = nullptr; }));
  EXPECT_TRUE(refused([](Arguments &a) { a.state[1] = nullptr; }));
  EXPECT_TRUE(refused([](Arguments &a) { a.scalars = nullptr; }));
  EXPECT_TRUE(refused([](Arguments &a) { a.gradientDtype = FSDP_F64; }));
  EXPECT_TRUE(refused([&](Arguments &a) {
    a.gathered = &memory;
    a.gatheredDtype = FSDP_F64;
  }));
  // Narrow shards have gradients of their dtype, and are gathered themselves.
  EXPECT_TRUE(refused([](Arguments &a) { a.dtype = FSDP_F64; }));
  EXPECT_TRUE(refused([](Arguments &a) { a.dtype = FSDP_BF16; }));
  EXPECT_TRUE(refused([&](Arguments &a) {
    a.dtype = a.gradientDtype = FSDP_BF16;
    a.gathered = &memory;
    a.gatheredDtype = FSDP_BF16;
  }));
  EXPECT_FALSE(refused([](Arguments &a) { a.dtype = a.gradientDtype = FSDP_F16; }));
  // State is of the parameters' dtype, fp32 or bf16.
  EXPECT_FALSE(refused([](Arguments &a) { a.stateDtype[0] = FSDP_BF16; }));
  EXPECT_TRUE(refused([](Arguments &a) { a.stateDtype[1] = FSDP_F16; }));
  // SGD without momentum has no state; a shard without elements has no memory.
  EXPECT_FALSE(refused([](Arguments &a) {
    a.kind = FSDP_SGD;
    a.state[0] = a.state[1] = nullptr;
  }));
  EXPECT_FALSE(refused([](Arguments &a) {
    a.elements = 0;
    a.parameters = nullptr;
  }));
}

TEST(KernelArgumentsTest, OtherKernelsNeedTheirBuffersAndKnownDtypes) {
  Buffers m;
  EXPECT_EQ(checkArguments(OptimizerScalarsArguments{{}, &m.inputs, &m.scalars}), cudaSuccess);
  EXPECT_EQ(checkArguments(OptimizerScalarsArguments{{}, nullptr, &m.scalars}),
            cudaErrorInvalidValue);
  EXPECT_EQ(checkArguments(m.partialNorm()), cudaSuccess);
  EXPECT_EQ(checkArguments(PartialNormArguments{m.floats, FSDP_I32, 4, m.doubles}),
            cudaErrorInvalidValue);
  EXPECT_EQ(checkArguments(PartialNormArguments{m.floats, FSDP_F32, 4, nullptr}),
            cudaErrorInvalidValue);
  EXPECT_EQ(checkArguments(PartialNormArguments{m.floats, FSDP_F32, 4, m.doubles,
                                                static_cast<fsdp_norm_type>(0)}),
            cudaErrorInvalidValue);
  EXPECT_EQ(checkArguments(JoinPartialsArguments{nullptr, 0, m.doubles}), cudaSuccess);
  EXPECT_EQ(checkArguments(JoinPartialsArguments{nullptr, 1, m.doubles}), cudaErrorInvalidValue);
  EXPECT_EQ(checkArguments(ClipFactorArguments{m.doubles, 1, m.floats, nullptr}), cudaSuccess);
  EXPECT_EQ(checkArguments(ClipFactorArguments{m.doubles, 0, m.floats, nullptr}),
            cudaErrorInvalidValue);
  EXPECT_EQ(checkArguments(m.average()), cudaSuccess);
  EXPECT_EQ(checkArguments(
                AverageArguments{m.floats, FSDP_F32, m.floats + 8, FSDP_F32, 0.1f, nullptr, 4}),
            cudaErrorInvalidValue);
  EXPECT_EQ(checkArguments(
                AverageArguments{m.floats, FSDP_F64, m.floats + 8, FSDP_F32, 0.1f, &m.inputs, 4}),
            cudaErrorInvalidValue);
  EXPECT_EQ(checkArguments(m.accumulate()), cudaSuccess);
  EXPECT_EQ(checkArguments(AccumulateArguments{m.floats, FSDP_F32, 1, nullptr, FSDP_F32, 1, 4}),
            cudaErrorInvalidValue);
}

TEST(KernelRecordTest, LaunchesAreNotedWithTheirArguments) {
  RecordingCalls calls;
  void *memory = nullptr;
  cudaStream_t stream = nullptr;
  ASSERT_EQ(calls.malloc(&memory, 4096), cudaSuccess);
  ASSERT_EQ(calls.streamCreateWithPriority(&stream, 0, 0), cudaSuccess);
  calls.take();
  auto at = [&](size_t offset) {
    return static_cast<void *>(static_cast<char *>(memory) + offset);
  };
  auto *scalars = static_cast<OptimizerScalars *>(at(64));
  auto *clip = static_cast<float *>(at(128));
  auto *sums = static_cast<double *>(at(256));
  auto *floats = static_cast<float *>(at(1024));
  CudaCalls &launcher = calls;

  EXPECT_EQ(launcher.launchKernel(PartialNormArguments{floats, FSDP_F32, 100, sums}, stream),
            cudaSuccess);
  EXPECT_EQ(launcher.launchKernel(JoinPartialsArguments{sums, 1, sums + 8}, stream), cudaSuccess);
  EXPECT_EQ(launcher.launchKernel(ClipFactorArguments{sums + 8, 0.5f, clip, nullptr}, stream),
            cudaSuccess);
  fsdp_optimizer adamw{FSDP_ADAMW, 0, 0, 0.1, 0, 0.9, 0.999, 1e-8, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(launcher.launchKernel(
                OptimizerScalarsArguments{adamw, static_cast<OptimizerInputs *>(memory), scalars},
                stream),
            cudaSuccess);
  EXPECT_EQ(launcher.launchKernel(OptimizerUpdateArguments{FSDP_ADAMW,
                                                           100,
                                                           floats,
                                                           floats + 100,
                                                           FSDP_F32,
                                                           {floats + 200, floats + 300},
                                                           at(3072),
                                                           FSDP_BF16,
                                                           scalars,
                                                           clip},
                                  stream),
            cudaSuccess);
  EXPECT_EQ(launcher.launchKernel(AverageArguments{floats, FSDP_F32, at(3072), FSDP_BF16, 0.25f,
                                                   static_cast<OptimizerInputs *>(memory), 100},
                                  stream),
            cudaSuccess);
  EXPECT_EQ(launcher.launchKernel(
                AccumulateArguments{floats, FSDP_F32, 1, at(3072), FSDP_BF16, 0.5f, 100}, stream),
            cudaSuccess);
  EXPECT_THAT(
      calls.take(),
      ElementsAre("partialNorm m1+1024 6 100 m1+256 2 s1", "joinPartials m1+256 1 m1+320 2 s1",
                  "clipFactor m1+320 0.5 m1+128 null 2 s1", "optimizerScalars 2 m1 m1+64 s1",
                  "optimizerUpdate 2 100 m1+1024 m1+1424 6 m1+1824 m1+2224 m1+3072 15 "
                  "m1+64 m1+128 s1",
                  "average m1+1024 6 m1+3072 15 0.25 m1 100 s1",
                  "accumulate m1+1024 6 1 m1+3072 15 0.5 100 s1"));

  EXPECT_EQ(launcher.launchKernel(PartialNormArguments{}, stream), cudaErrorInvalidValue);
  calls.fail("clipFactor", cudaErrorLaunchFailure);
  EXPECT_EQ(launcher.launchKernel(ClipFactorArguments{sums, 1, clip, nullptr}, stream),
            cudaErrorLaunchFailure);
  calls.streamDestroy(stream);
  calls.free(memory);
}
