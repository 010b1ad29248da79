//===- KernelArgumentsTest.cpp - Geometry, checks and records of kernels --===//

#include "RecordingCalls.h"

#include <gmock/gmock.h>

#include <map>

using namespace fsdp::rt;
using testing::ElementsAre;

namespace {
/// Arguments that are valid; the memory is never touched.
struct Buffers {
  float floats[16] = {};
  double doubles[4] = {};
  OptimizerScalars scalars{};

  OptimizerUpdateArguments update() {
    return {FSDP_ADAMW, 4,        floats,   floats + 4, FSDP_F32, {floats + 8, floats + 12},
            nullptr,    FSDP_F32, &scalars, nullptr};
  }
  PartialNormArguments partialNorm() { return {floats, FSDP_BF16, 4, doubles}; }
  AverageArguments average() { return {floats, FSDP_F32, floats + 8, FSDP_BF16, &scalars, 4}; }
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
  EXPECT_TRUE(refused([](Arguments &a) { a.kind = FSDP_NUM_OPTIMIZER_KINDS; }));
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
  // A limit of the gradients' elements, which may round to 0.
  EXPECT_FALSE(refused([](Arguments &a) { a.clipValue = 0; }));
  EXPECT_TRUE(refused([](Arguments &a) { a.clipValue = -1; }));
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

// Those that the optimizer has with any options; the others may be missing.
TEST(KernelArgumentsTest, UpdatesNeedTheirStates) {
  Buffers memory;
  const std::map<uint32_t, unsigned> needed = {
      {FSDP_SGD, 0},    {FSDP_ADAM, 2},  {FSDP_ADAMW, 2}, {FSDP_RMSPROP, 1}, {FSDP_ADAGRAD, 1},
      {FSDP_ADAMAX, 2}, {FSDP_NADAM, 2}, {FSDP_RADAM, 2}, {FSDP_ADADELTA, 2}};
  EXPECT_EQ(needed.size(), FSDP_NUM_OPTIMIZER_KINDS);
  for (auto [kind, states] : needed)
    for (unsigned given = 0; given <= FSDP_MAX_STATES; ++given) {
      OptimizerUpdateArguments arguments = memory.update();
      arguments.kind = kind;
      for (unsigned i = 0; i < FSDP_MAX_STATES; ++i)
        arguments.state[i] = i < given ? memory.floats : nullptr;
      EXPECT_EQ(checkArguments(arguments), given < states ? cudaErrorInvalidValue : cudaSuccess)
          << "optimizer " << kind << ", " << given << " states";
    }
}

TEST(KernelArgumentsTest, OtherKernelsNeedTheirBuffersAndKnownDtypes) {
  Buffers m;
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
  EXPECT_EQ(checkArguments(ClipFactorArguments{m.doubles, 0, m.floats, nullptr, FSDP_NORM_2,
                                               m.floats, m.floats + 1}),
            cudaSuccess);
  EXPECT_EQ(
      checkArguments(ClipFactorArguments{m.doubles, 1, m.floats, nullptr, FSDP_NORM_2, m.floats}),
      cudaErrorInvalidValue);
  EXPECT_EQ(checkArguments(ClipFactorArguments{m.doubles, 0, m.floats, nullptr}),
            cudaErrorInvalidValue);
  EXPECT_EQ(checkArguments(m.average()), cudaSuccess);
  EXPECT_EQ(
      checkArguments(AverageArguments{m.floats, FSDP_F32, m.floats + 8, FSDP_F32, nullptr, 4}),
      cudaErrorInvalidValue);
  EXPECT_EQ(
      checkArguments(AverageArguments{m.floats, FSDP_F64, m.floats + 8, FSDP_F32, &m.scalars, 4}),
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
  EXPECT_EQ(launcher.launchKernel(
                AverageArguments{floats, FSDP_F32, at(3072), FSDP_BF16, scalars, 100}, stream),
            cudaSuccess);
  EXPECT_EQ(launcher.launchKernel(
                AccumulateArguments{floats, FSDP_F32, 1, at(3072), FSDP_BF16, 0.5f, 100}, stream),
            cudaSuccess);
  EXPECT_THAT(calls.take(),
              ElementsAre("partialNorm m1+1024 6 100 m1+256 2 s1",
                          "joinPartials m1+256 1 m1+320 2 s1",
                          "clipFactor m1+320 0.5 m1+128 null 2 s1",
                          "optimizerUpdate 2 100 m1+1024 m1+1424 6 m1+1824 m1+2224 m1+3072 15 "
                          "m1+64 m1+128 s1",
                          "average m1+1024 6 m1+3072 15 m1+64 100 s1",
                          "accumulate m1+1024 6 1 m1+3072 15 0.5 100 s1"));

  EXPECT_EQ(launcher.launchKernel(PartialNormArguments{}, stream), cudaErrorInvalidValue);
  calls.fail("clipFactor", cudaErrorLaunchFailure);
  EXPECT_EQ(launcher.launchKernel(ClipFactorArguments{sums, 1, clip, nullptr}, stream),
            cudaErrorLaunchFailure);
  calls.streamDestroy(stream);
  calls.free(memory);
}
