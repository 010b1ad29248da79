//===- Device.cpp - Rates of devices, measured and estimated ---------------===//
//
// Sources
//
//   peaks     NVIDIA's data sheets, dense: A100 80GB SXM (2021), H100 SXM and H200 SXM (2024),
//             Blackwell architecture technical brief, HGX B200 at 1,000 W (2024). f32 is that of
//             CUDA cores: torch leaves TF32 off for products by default. f8 is that of FP8; the
//             A100 has none, its figure is that of INT8. Fractions and ramps of products in f8 are
//             those of f16, not measured.
//   memory    bytes that nvidia-smi reports for the device.
//   reserved  a context with torch's kernels (0.5 GiB), the buffers of NCCL's communicators for
//             gathers, reductions and control messages of ranks (0.25 GiB each), workspaces of
//             cuBLAS and cuDNN. Estimates.
//   measured  of h100: the steps that docs/costs.md compares with predictions, kernel by kernel,
//             on an H100 SXM 80 GB (HBM3, 700 W, driver 580.159.04, torch 2.11.0+cu130, cuDNN
//             9.19), 2026-11-26. The cost of events is left out, and so are kernels beside
//             collectives.
//   products  h100: measured. cuBLAS reaches 430 to 660 TFLOPS in products of 3.4e10 operations,
//             640 to 810 in 1.4e11, 650 to 870 in 5.5e11 and more. The same products take 1.12
//             times as long with generated kernels for elementwise operators, which leave less time
//             between products: probably the power limit. Fraction and ramp lie between both.
//             b200: h100's. a100: an estimate.
//   attention h100: measured, cuDNN's with causal heads of 64: 340 to 350 TFLOPS forward, 240 to
//             285 backward. torch's flash attention runs at 287 to 304 for heads of 128
//             (github.com/pytorch/benchmark/pull/2296). a100: FlashAttention-2 at 50 to 73 %
//             (arXiv 2307.08691), its backward less. b200: h100's.
//   500 W     H100 SXM with 96 GB of HBM2e at 2.4 TB/s and a power limit of 500 W, on which
//             torchtitan publishes its figures (benchmarks/llama3_h100_202412_torchtitan.md). The
//             fractions of products and attention are h100's times 0.83, which reproduces one of
//             these figures: docs/costs.md.
//   traffic   h100: measured, elementwise operators that load vectors reach 0.88 to 0.91. Updates
//             reach 0.8. Other devices: the same.
//   generated h100: measured, 0.84 to 0.92 by kernel. Other devices: the same.
//   elements  h100: measured, 266e9 to 400e9 a second. a100 and b200: by multiprocessors times
//             clock (108 x 1.41 GHz, 148 x 1.97 GHz; h100: 132 x 1.98 GHz).
//   rows      torch's softmax keeps rows of up to 48 KiB in shared memory. Logits of 128 KB a row
//             are read three times by its forward and twice by its backward: measured. Generated
//             kernels take about as long for rows of 64 KB as if they read them again, measured:
//             these fill the registers, so that no other row is loaded meanwhile. Rows of 4 KiB do
//             not. A server core's second-level cache has 1 MiB.
//   host      the link of the data sheets: PCIe 5.0 x16 (128 GB/s both ways together; A100: 4.0,
//             64 GB/s). Copies of pinned memory reach about 0.85 of a direction (packet headers,
//             requests). An estimate. Both directions run at once. On a CPU these are ordinary
//             copies in its memory.
//   kernelNs  gaps between kernels that are queued ahead, and ramps. h100: kernels of 64 KB take
//             2 to 3 us, measured. Other devices: the same.
//   cpu       one thread of a server core at 3 GHz with two 256-bit fused multiply-adds per cycle
//             (32 f32 operations); one core of a cloud machine copies at 12 GB/s. torch's dispatch
//             of one call: 0.8 us, measured. f8: torch's _scaled_mm of 512 x 512, measured.
//             Estimates; a profile is better.
//
//===----------------------------------------------------------------------===//

#include "fsdp/CostModel/Device.h"

#include "fsdp/IR/TensorLayout.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <limits>

using namespace mlir;
using namespace fsdp::cost;

static constexpr int64_t kMiB = int64_t(1) << 20;
static constexpr int64_t kReservedBytes = 1344 * kMiB;
static constexpr int64_t kCachedRowBytes = 48 << 10;
static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// The fraction of the memory bandwidth that generated kernels reach on GPUs.
static constexpr double kGeneratedFraction = 0.88;

static constexpr Device kDevices[] = {
    {.name = "a100",
     .fullName = "NVIDIA A100 SXM 80GB",
     .calibration = "estimated, not measured",
     .f8FlopsPerSec = 624e12,
     .f16FlopsPerSec = 312e12,
     .f32FlopsPerSec = 19.5e12,
     .f64FlopsPerSec = 19.5e12,
     .memoryBytesPerSec = 2.039e12,
     .matrixProductFraction = 0.80,
     .productRampNs = 0,
     .attentionFraction = 0.50,
     .attentionBackwardFraction = 0.50,
     .memoryFraction = 0.9,
     .generatedFraction = kGeneratedFraction,
     .elementsPerSec = 190e9,
     .cachedRowBytes = kCachedRowBytes,
     .hostBytesPerSec = 32e9,
     .hostFraction = 0.85,
     .kernelNs = 2500,
     .memoryBytes = 81920 * kMiB,
     .reservedBytes = kReservedBytes,
     .network = "dgx-a100"},
    {.name = "h100",
     .fullName = "NVIDIA H100 SXM",
     .calibration = "fitted to steps on one H100",
     .f8FlopsPerSec = 1979e12,
     .f16FlopsPerSec = 989e12,
     .f32FlopsPerSec = 67e12,
     .f64FlopsPerSec = 67e12,
     .memoryBytesPerSec = 3.35e12,
     .matrixProductFraction = 0.75,
     .productRampNs = 14000,
     .attentionFraction = 0.34,
     .attentionBackwardFraction = 0.26,
     .memoryFraction = 0.9,
     .generatedFraction = kGeneratedFraction,
     .elementsPerSec = 325e9,
     .cachedRowBytes = kCachedRowBytes,
     .hostBytesPerSec = 64e9,
     .hostFraction = 0.85,
     .kernelNs = 2000,
     .memoryBytes = 81559 * kMiB,
     .reservedBytes = kReservedBytes,
     .network = "dgx-h100"},
    {.name = "h100-500w",
     .fullName = "NVIDIA H100 SXM 96GB at 500 W",
     .calibration = "fitted to one published step",
     .f8FlopsPerSec = 1979e12,
     .f16FlopsPerSec = 989e12,
     .f32FlopsPerSec = 67e12,
     .f64FlopsPerSec = 67e12,
     .memoryBytesPerSec = 2.4e12,
     .matrixProductFraction = 0.62,
     .productRampNs = 14000,
     .attentionFraction = 0.28,
     .attentionBackwardFraction = 0.22,
     .memoryFraction = 0.9,
     .generatedFraction = kGeneratedFraction,
     .elementsPerSec = 325e9,
     .cachedRowBytes = kCachedRowBytes,
     .hostBytesPerSec = 64e9,
     .hostFraction = 0.85,
     .kernelNs = 2000,
     .memoryBytes = 97871 * kMiB,
     .reservedBytes = kReservedBytes,
     .network = "dgx-h100"},
    {.name = "h200",
     .fullName = "NVIDIA H200 SXM",
     .calibration = "as fitted to one H100, not measured",
     .f8FlopsPerSec = 1979e12,
     .f16FlopsPerSec = 989e12,
     .f32FlopsPerSec = 67e12,
     .f64FlopsPerSec = 67e12,
     .memoryBytesPerSec = 4.8e12,
     .matrixProductFraction = 0.75,
     .productRampNs = 14000,
     .attentionFraction = 0.34,
     .attentionBackwardFraction = 0.26,
     .memoryFraction = 0.9,
     .generatedFraction = kGeneratedFraction,
     .elementsPerSec = 325e9,
     .cachedRowBytes = kCachedRowBytes,
     .hostBytesPerSec = 64e9,
     .hostFraction = 0.85,
     .kernelNs = 2000,
     .memoryBytes = 143771 * kMiB,
     .reservedBytes = kReservedBytes,
     .network = "dgx-h200"},
    {.name = "b200",
     .fullName = "NVIDIA HGX B200",
     .calibration = "as fitted to one H100, not measured",
     .f8FlopsPerSec = 4500e12,
     .f16FlopsPerSec = 2250e12,
     .f32FlopsPerSec = 80e12,
     .f64FlopsPerSec = 40e12,
     .memoryBytesPerSec = 8e12,
     .matrixProductFraction = 0.75,
     .productRampNs = 14000,
     .attentionFraction = 0.34,
     .attentionBackwardFraction = 0.26,
     .memoryFraction = 0.9,
     .generatedFraction = kGeneratedFraction,
     .elementsPerSec = 360e9,
     .cachedRowBytes = kCachedRowBytes,
     .hostBytesPerSec = 64e9,
     .hostFraction = 0.85,
     .kernelNs = 2000,
     .memoryBytes = 183359 * kMiB,
     .reservedBytes = kReservedBytes,
     .network = "dgx-b200"},
    {.name = "cpu",
     .fullName = "one thread of a server CPU",
     .calibration = "a typical core",
     .f8FlopsPerSec = 44e9,
     .f16FlopsPerSec = 12e9,
     .f32FlopsPerSec = 96e9,
     .f64FlopsPerSec = 48e9,
     .memoryBytesPerSec = 12e9,
     .matrixProductFraction = 0.75,
     .productRampNs = 0,
     .attentionFraction = 0.35,
     .attentionBackwardFraction = 0.35,
     .memoryFraction = 0.9,
     .generatedFraction = 0.9,
     .elementsPerSec = kNoLimit,
     .cachedRowBytes = kMiB,
     .hostBytesPerSec = 0,
     .hostFraction = 0,
     .kernelNs = 800,
     .memoryBytes = 0,
     .reservedBytes = 0,
     .network = "shared-memory"},
};

double Device::getPeakNs(const OperatorWork &work) const {
  if (work.arithmetic == Arithmetic::None)
    return 0;
  double peak = work.element.isF64()                            ? f64FlopsPerSec
                : work.element.isF16() || work.element.isBF16() ? f16FlopsPerSec
                : getElementBytes(work.element) == 1            ? f8FlopsPerSec
                                                                : f32FlopsPerSec;
  return work.flops / peak * 1e9;
}

double Device::getDurationNs(const OperatorWork &work) const {
  if (work.runsNothing)
    return 0;
  double arithmeticNs = getPeakNs(work);
  switch (work.arithmetic) {
  case Arithmetic::None:
    break;
  case Arithmetic::MatrixProduct:
    arithmeticNs /= matrixProductFraction;
    arithmeticNs += std::min(arithmeticNs, productRampNs);
    break;
  case Arithmetic::Attention:
    arithmeticNs /= attentionFraction;
    break;
  case Arithmetic::AttentionBackward:
    arithmeticNs /= attentionBackwardFraction;
    break;
  }
  double elementsNs = work.singleElements / elementsPerSec * 1e9;
  return kernelNs + std::max({arithmeticNs, elementsNs, getTrafficNs(work, memoryFraction)});
}

double Device::getGeneratedNs(const OperatorWork &work) const {
  return kernelNs + getTrafficNs(work, generatedFraction);
}

double Device::getTrafficNs(const OperatorWork &work, double fraction) const {
  int64_t bytes = work.bytes + (work.rowBytes > cachedRowBytes ? work.rereadBytes : 0);
  return static_cast<double>(bytes) / (memoryBytesPerSec * fraction) * 1e9;
}

llvm::Expected<const Device *> fsdp::cost::lookupDevice(StringRef name) {
  std::string names;
  for (const Device &device : kDevices) {
    if (device.name == name)
      return &device;
    names += (names.empty() ? "" : ", ") + device.name.str();
  }
  return llvm::createStringError("unknown device '" + name + "', expected one of " + names);
}

const Device *fsdp::cost::findProduct(StringRef product) {
  llvm::SmallVector<StringRef> words;
  llvm::SplitString(product, words, " -_");
  for (const Device &device : kDevices)
    if (llvm::any_of(words, [&](StringRef word) { return word.equals_insensitive(device.name); }))
      return &device;
  return nullptr;
}
