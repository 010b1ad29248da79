//===- KernelDeviceTest.cpp - Kernels equal their host reference -----------===//
//
// On a device; skipped, with the reason, where there is none. What needs no device runs anyway:
// launches with bad arguments are refused before CUDA is asked. cuda-kernel-host-test is this file
// with the kernels as functions of the host (host/HostKernels.h).
//
//===----------------------------------------------------------------------===//

#include "KernelReference.h"
#include "OptimizerCases.h"
#include "executor/OptimizerSteps.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>

using namespace fsdp::rt;
using namespace fsdp::test;

namespace {
/// Memory of the device, freed at the end.
class DeviceBytes {
public:
  explicit DeviceBytes(const std::vector<std::byte> &content) : bytes(content.size()) {
    EXPECT_EQ(cudaMalloc(&memory, bytes + 16), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(memory, content.data(), bytes, cudaMemcpyHostToDevice), cudaSuccess);
  }
  DeviceBytes(const DeviceBytes &) = delete;
  DeviceBytes &operator=(const DeviceBytes &) = delete;
  ~DeviceBytes() { cudaFree(memory); }

  template <typename T> T *as() const { return static_cast<T *>(memory); }
  std::vector<std::byte> read() const {
    std::vector<std::byte> content(bytes);
    EXPECT_EQ(cudaMemcpy(content.data(), memory, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    return content;
  }

private:
  size_t bytes;
  void *memory = nullptr;
};

template <typename T> std::vector<std::byte> bytesOf(const T &value) {
  std::vector<std::byte> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}
template <typename T> T valueOf(const std::vector<std::byte> &bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

template <typename T> std::vector<std::byte> packAs(const std::vector<float> &values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value(values[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}
template <typename T> std::vector<float> unpackAs(const std::vector<std::byte> &bytes) {
  std::vector<float> values(bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<float>(value);
  }
  return values;
}
std::vector<std::byte> pack(const std::vector<float> &values, fsdp_dtype dtype) {
  return dtype == FSDP_F32    ? packAs<float>(values)
         : dtype == FSDP_BF16 ? packAs<c10::BFloat16>(values)
                              : packAs<c10::Half>(values);
}
std::vector<float> unpack(const std::vector<std::byte> &bytes, fsdp_dtype dtype) {
  return dtype == FSDP_F32    ? unpackAs<float>(bytes)
         : dtype == FSDP_BF16 ? unpackAs<c10::BFloat16>(bytes)
                              : unpackAs<c10::Half>(bytes);
}
size_t sizeOf(fsdp_dtype dtype) { return dtype == FSDP_F32 ? 4 : 2; }

class KernelDeviceTest : public testing::Test {
protected:
  void SetUp() override {
    int devices = 0;
    cudaError_t error = cudaGetDeviceCount(&devices);
    (void)cudaGetLastError();
    if (error != cudaSuccess)
      GTEST_SKIP() << "no CUDA device: " << cudaGetErrorString(error);
    if (devices == 0)
      GTEST_SKIP() << "no CUDA device";
  }

  /// Numbers of `dtype`, of many orders of magnitude, within fp16's range; a quarter is 0, as what
  /// belongs to parameters that a step does not use.
  std::vector<float> random(size_t count, fsdp_dtype dtype) {
    std::vector<float> values(count);
    for (float &value : values)
      if (engine() % 4 != 0)
        value = rounded(std::clamp(normal(engine) * std::pow(10.f, normal(engine)), -6e4f, 6e4f),
                        dtype);
    return values;
  }

  void expectBits(const std::vector<float> &actual, const std::vector<float> &expected,
                  const std::string &what) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i)
      ASSERT_EQ(ulpDistance(actual[i], expected[i]), 0)
          << what << ", element " << i << ": " << actual[i] << ", expected " << expected[i];
  }

  std::mt19937 engine{5};
  std::normal_distribution<float> normal;
};

/// Shorter than a vector, with a tail, and more than the grid's threads take at once (on a host,
/// whose grids are small, before the last size).
constexpr size_t kSizes[] = {1, 3, 4097, 1 << 20,
#ifndef FSDP_HOST_KERNELS
                             20'000'003
#endif
};
constexpr size_t kSmallSizes[] = {3, 4097, 300'001};
constexpr fsdp_dtype kDtypes[] = {FSDP_F32, FSDP_BF16, FSDP_F16};
} // namespace

TEST(KernelLaunchTest, BadArgumentsAreRefusedBeforeTheDevice) {
  EXPECT_EQ(launchKernel(OptimizerUpdateArguments{}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launchKernel(PartialNormArguments{}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launchKernel(JoinPartialsArguments{}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launchKernel(ClipFactorArguments{}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launchKernel(AccumulateArguments{}, nullptr), cudaErrorInvalidValue);
}

TEST(KernelLaunchTest, NothingIsLaunchedForNoElements) {
  EXPECT_EQ(launchKernel(PartialNormArguments{nullptr, FSDP_F32, 0, nullptr}, nullptr),
            cudaSuccess);
  EXPECT_EQ(
      launchKernel(AccumulateArguments{nullptr, FSDP_F32, 1, nullptr, FSDP_F32, 1, 0}, nullptr),
      cudaSuccess);
}

namespace {
/// What differs between the updates of a test.
struct UpdateCase {
  fsdp_dtype dtype, gradients, gathered;
  bool gathers;
  std::array<fsdp_dtype, FSDP_MAX_STATES> states = {dtype, dtype, dtype};
};
} // namespace

static std::vector<UpdateCase> updateCases() {
  std::vector<UpdateCase> cases = {{FSDP_BF16, FSDP_BF16, FSDP_BF16, false},
                                   {FSDP_F16, FSDP_F16, FSDP_F16, false}};
  for (fsdp_dtype gradients : kDtypes) {
    cases.push_back({FSDP_F32, gradients, FSDP_F32, false});
    for (fsdp_dtype gathered : kDtypes)
      cases.push_back({FSDP_F32, gradients, gathered, true});
  }
  for (fsdp_dtype dtype : kDtypes) // with state of other dtypes
    for (fsdp_dtype first : {FSDP_F32, FSDP_BF16})
      for (fsdp_dtype second : {FSDP_F32, FSDP_BF16})
        if (first != dtype || second != dtype)
          cases.push_back({dtype, dtype, dtype, false, {first, second, first}});
  return cases;
}

TEST_F(KernelDeviceTest, UpdatesEqualTheReferenceBitForBit) {
  auto check = [&](const fsdp_optimizer &optimizer, size_t size, const UpdateCase &own,
                   int64_t step) {
    // In every second step: less than most gradients.
    const float clipValue =
        rounded(step == 1 ? std::numeric_limits<float>::infinity() : 0.3f, own.dtype);
    const OptimizerScalars scalars = OptimizerSteps(optimizer).at(step, 1e-2);
    ReferenceShard shard{random(size, own.dtype), {}};
    std::vector<float> gradients = random(size, own.gradients);
    DeviceBytes p(pack(shard.parameters, own.dtype)), g(pack(gradients, own.gradients)),
        gathered(std::vector<std::byte>(size * sizeOf(own.gathered))),
        deviceScalars(bytesOf(scalars)), clip(bytesOf(0.37f)), inverse(bytesOf(1 / 3.f));
    OptimizerUpdateArguments arguments{.kind = optimizer.kind,
                                       .elements = static_cast<int64_t>(size),
                                       .parameters = p.as<void>(),
                                       .gradients = g.as<void>(),
                                       .gradientDtype = own.gradients,
                                       .state = {},
                                       .gathered = own.gathers ? gathered.as<void>() : nullptr,
                                       .gatheredDtype = own.gathered,
                                       .scalars = deviceScalars.as<OptimizerScalars>(),
                                       .clipFactor = clip.as<float>(),
                                       .clipValue = clipValue,
                                       .dtype = own.dtype};
    if (step != 1) { // the loss is scaled
      arguments.inverseScale = inverse.as<float>();
      for (float &gradient : gradients)
        gradient = rounded(gradient * (1 / 3.f), own.dtype);
    }
    std::array<std::optional<DeviceBytes>, FSDP_MAX_STATES> states;
    bool hasOwnState = false;
    for (unsigned i = 0; i < FSDP_MAX_STATES; ++i)
      if (hasState(optimizer, i)) {
        shard.state[i] = random(size, own.states[i]);
        for (float &value : shard.state[i])
          value = std::abs(value);
        states[i].emplace(pack(shard.state[i], own.states[i]));
        arguments.state[i] = states[i]->as<void>();
        arguments.stateDtype[i] = own.states[i];
        hasOwnState |= own.states[i] != own.dtype;
      }
    ASSERT_EQ(launchKernel(arguments, nullptr), cudaSuccess);
    clipValues(gradients, clipValue);
    float factor = 0.37f;
    if (hasOwnState && own.dtype != FSDP_F32) { // clipped in the gradients' dtype
      for (float &gradient : gradients)
        gradient = rounded(gradient * rounded(factor, own.dtype), own.dtype);
      factor = 1;
    }
    referenceUpdate(optimizer.kind, scalars, factor, gradients, shard);
    auto roundTo = [](std::vector<float> values, fsdp_dtype dtype) {
      for (float &value : values)
        value = rounded(value, dtype);
      return values;
    };
    expectBits(unpack(p.read(), own.dtype), roundTo(shard.parameters, own.dtype), "parameters");
    for (unsigned i = 0; i < FSDP_MAX_STATES; ++i)
      if (states[i])
        expectBits(unpack(states[i]->read(), own.states[i]), roundTo(shard.state[i], own.states[i]),
                   "state " + std::to_string(i));
    if (own.gathers)
      expectBits(unpack(gathered.read(), own.gathered), roundTo(shard.parameters, own.gathered),
                 "gathered");
  };
  const std::vector<fsdp_optimizer> optimizers = optimizerCases();
  for (size_t n = 0; n < optimizers.size(); ++n)
    for (size_t size : kSmallSizes)
      for (const UpdateCase &own : updateCases())
        for (int64_t step : {1, 7}) {
          // The reference takes long: many elements in one dtype and step.
          if (size == kSmallSizes[2] && (own.gathered != FSDP_BF16 || step == 1))
            continue;
          check(optimizers[n], size, own, step);
          ASSERT_FALSE(HasFatalFailure())
              << "optimizer case " << n << " (" << fsdp::plan::kindOf(optimizers[n]).name
              << "), step " << step << ", " << size << " elements, dtypes " << own.dtype
              << " (gradients " << own.gradients << ", states " << own.states[0] << " "
              << own.states[1] << ", gathered " << (own.gathers ? own.gathered : 0) << ")";
        }
}

// With a loss scale a factor of NaN leaves parameters and state as they are, and the copy for
// gathers is theirs. Without one all become NaN.
TEST_F(KernelDeviceTest, UpdatesAreLeftOut) {
  const fsdp_optimizer optimizer = makeOptimizer(FSDP_ADAMW);
  const OptimizerScalars scalars = OptimizerSteps(optimizer).at(2, 1e-2);
  for (size_t size : kSmallSizes)
    for (bool isScaled : {true, false}) {
      const std::vector<float> before = random(size, FSDP_F32);
      std::vector<float> squares = before;
      for (float &square : squares)
        square = std::abs(square);
      DeviceBytes p(pack(before, FSDP_F32)), g(pack(before, FSDP_F32)),
          first(pack(before, FSDP_F32)), second(pack(squares, FSDP_F32)),
          average(pack(before, FSDP_F32)),
          gathered(std::vector<std::byte>(size * sizeOf(FSDP_BF16))),
          deviceScalars(bytesOf(scalars)), factor(bytesOf(std::nanf(""))), inverse(bytesOf(0.25f));
      OptimizerUpdateArguments arguments{.kind = optimizer.kind,
                                         .elements = static_cast<int64_t>(size),
                                         .parameters = p.as<void>(),
                                         .gradients = g.as<void>(),
                                         .gradientDtype = FSDP_F32,
                                         .state = {first.as<void>(), second.as<void>()},
                                         .gathered = gathered.as<void>(),
                                         .gatheredDtype = FSDP_BF16,
                                         .scalars = deviceScalars.as<OptimizerScalars>(),
                                         .clipFactor = factor.as<float>(),
                                         .inverseScale = isScaled ? inverse.as<float>() : nullptr};
      AverageArguments averaging{average.as<void>(),
                                 FSDP_F32,
                                 g.as<void>(),
                                 FSDP_F32,
                                 deviceScalars.as<OptimizerScalars>(),
                                 static_cast<int64_t>(size),
                                 isScaled ? factor.as<float>() : nullptr};
      ASSERT_EQ(launchKernel(arguments, nullptr), cudaSuccess);
      ASSERT_EQ(launchKernel(averaging, nullptr), cudaSuccess);
      if (!isScaled) {
        EXPECT_TRUE(size == 0 || std::isnan(unpack(p.read(), FSDP_F32).back()));
        continue;
      }
      expectBits(unpack(p.read(), FSDP_F32), before, "parameters");
      expectBits(unpack(first.read(), FSDP_F32), before, "exp_avg");
      expectBits(unpack(second.read(), FSDP_F32), squares, "exp_avg_sq");
      expectBits(unpack(average.read(), FSDP_F32), before, "average");
      std::vector<float> copy = before;
      for (float &value : copy)
        value = rounded(value, FSDP_BF16);
      expectBits(unpack(gathered.read(), FSDP_BF16), copy, "gathered");
    }
}

TEST_F(KernelDeviceTest, PartialNormsAreRightAndRepeat) {
  for (size_t size : kSizes)
    for (fsdp_dtype dtype : kDtypes)
      for (fsdp_norm_type type : {FSDP_NORM_1, FSDP_NORM_2, FSDP_NORM_INF}) {
        std::vector<float> gradients = random(size, dtype);
        auto elements = static_cast<int64_t>(size);
        int64_t blocks = partialNormBlocks(elements);
        DeviceBytes g(pack(gradients, dtype)),
            partials(std::vector<std::byte>(static_cast<size_t>(blocks) * 8)), total(bytesOf(0.0));
        double first = 0;
        for (int repeat = 0; repeat < 2; ++repeat) {
          PartialNormArguments parts{g.as<void>(), dtype, elements, partials.as<double>(), type};
          JoinPartialsArguments join{partials.as<double>(), blocks, total.as<double>(), type};
          ASSERT_EQ(launchKernel(parts, nullptr), cudaSuccess);
          ASSERT_EQ(launchKernel(join, nullptr), cudaSuccess);
          auto part = valueOf<double>(total.read());
          if (repeat == 0)
            first = part;
          ASSERT_EQ(part, first);
        }
        double expected = referencePartialNorm(type, gradients);
        ASSERT_NEAR(first, expected, type == FSDP_NORM_INF ? 0 : 1e-13 * expected)
            << size << " elements of dtype " << dtype << ", norm_type " << type;
      }
}

TEST_F(KernelDeviceTest, ClipFactorsEqualTheReference) {
  for (double value : {0.0, 1e-14, 0.3, 2.0, 12345.678, HUGE_VAL, std::nan("")})
    for (fsdp_norm_type type : {FSDP_NORM_1, FSDP_NORM_2, FSDP_NORM_INF}) {
      DeviceBytes total(bytesOf(value)), factor(bytesOf(0.f)), norm(bytesOf(0.f));
      ASSERT_EQ(launchKernel(ClipFactorArguments{total.as<double>(), 1.5f, factor.as<float>(),
                                                 norm.as<float>(), type},
                             nullptr),
                cudaSuccess);
      auto expected = static_cast<float>(type == FSDP_NORM_2 ? std::sqrt(value) : value);
      EXPECT_EQ(ulpDistance(valueOf<float>(factor.read()), referenceClipFactor(type, value, 1.5f)),
                0);
      EXPECT_EQ(ulpDistance(valueOf<float>(norm.read()), expected), 0);
      for (float maxNorm : {0.f, 1.5f}) {
        const float inverse = 1 / 3.f;
        DeviceBytes scale(bytesOf(3.f)), inverseScale(bytesOf(0.f));
        ASSERT_EQ(launchKernel(ClipFactorArguments{total.as<double>(), maxNorm, factor.as<float>(),
                                                   norm.as<float>(), type, scale.as<float>(),
                                                   inverseScale.as<float>()},
                               nullptr),
                  cudaSuccess);
        EXPECT_EQ(valueOf<float>(inverseScale.read()), inverse);
        const float scaled = !std::isfinite(value) ? std::nanf("")
                             : maxNorm == 0 ? 1
                                            : referenceClipFactor(type, value, maxNorm, inverse);
        EXPECT_EQ(ulpDistance(valueOf<float>(factor.read()), scaled), 0);
      }
    }
}

// Aligned, and one element further, where vectors are not possible.
TEST_F(KernelDeviceTest, AccumulationEqualsTheReference) {
  for (fsdp_dtype toDtype : kDtypes)
    for (fsdp_dtype fromDtype : kDtypes)
      for (float toScale : {0.f, 1.f, 0.7f})
        for (size_t size : kSmallSizes)
          for (size_t skipped : {0, 1}) {
            std::vector<float> to = random(size, toDtype), from = random(size, fromDtype);
            DeviceBytes t(pack(to, toDtype)), f(pack(from, fromDtype));
            ASSERT_EQ(launchKernel(AccumulateArguments{t.as<char>() + skipped * sizeOf(toDtype),
                                                       toDtype, toScale,
                                                       f.as<char>() + skipped * sizeOf(fromDtype),
                                                       fromDtype, 0.3f,
                                                       static_cast<int64_t>(size - skipped)},
                                   nullptr),
                      cudaSuccess);
            for (size_t i = skipped; i < size; ++i)
              to[i] = rounded(referenceAccumulate(to[i], toScale, from[i], 0.3f), toDtype);
            expectBits(unpack(t.read(), toDtype), to, "accumulated");
            if (HasFatalFailure())
              return;
          }
}

TEST_F(KernelDeviceTest, AverageEqualsTheReference) {
  for (fsdp_dtype dtype : kDtypes)
    for (fsdp_dtype averageDtype : kDtypes)
      for (float weight : {0.001f, 0.75f})
        for (int64_t step : {1, 2})
          for (size_t size : kSmallSizes) {
            std::vector<float> average = random(size, averageDtype), from = random(size, dtype);
            DeviceBytes a(pack(average, averageDtype)), f(pack(from, dtype));
            OptimizerScalars scalars{};
            scalars.average = {weight, step == 1};
            DeviceBytes deviceScalars(bytesOf(scalars));
            ASSERT_EQ(launchKernel(AverageArguments{a.as<void>(), averageDtype, f.as<void>(), dtype,
                                                    deviceScalars.as<OptimizerScalars>(),
                                                    static_cast<int64_t>(size)},
                                   nullptr),
                      cudaSuccess);
            for (size_t i = 0; i < size; ++i)
              average[i] =
                  rounded(referenceAverage(average[i], from[i], scalars.average), averageDtype);
            expectBits(unpack(a.read(), averageDtype), average, "averaged");
            if (HasFatalFailure())
              return;
          }
}

TEST_F(KernelDeviceTest, ThreadsGoOnWhereTheGridEnds) {
  constexpr size_t kSize = 20'000'003;
  std::vector<float> to(kSize, 1.f), from(kSize);
  for (size_t i = 0; i < kSize; ++i)
    from[i] = static_cast<float>(i);
  DeviceBytes t(pack(to, FSDP_F32)), f(pack(from, FSDP_F32));
  ASSERT_EQ(launchKernel(AccumulateArguments{t.as<void>(), FSDP_F32, 1, f.as<void>(), FSDP_F32, 1,
                                             static_cast<int64_t>(kSize)},
                         nullptr),
            cudaSuccess);
  for (size_t i = 0; i < kSize; ++i)
    to[i] += from[i];
  expectBits(unpack(t.read(), FSDP_F32), to, "accumulated");
}
