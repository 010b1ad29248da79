//===- Device.cpp - Rates of devices that are not at hand ------------------===//
//
// Sources
//
//   peaks     NVIDIA's data sheets, dense: A100 80GB SXM (2021), H100 SXM and H200 SXM (2024),
//             Blackwell architecture technical brief, HGX B200 at 1,000 W (2024). f32 is that of
//             CUDA cores: torch leaves TF32 off for products by default.
//   memory    bytes that nvidia-smi reports for the device.
//   reserved  a context with torch's kernels (0.5 GiB), the buffers of NCCL's communicators for
//             gathers, reductions and what ranks tell each other (0.25 GiB each), workspaces of
//             cuBLAS and cuDNN. Estimates.
//   products  cuBLAS reaches 780 of H100's 989 TFLOPS at its best shape (gist.github.com/Chillee/
//             2ec89696db8b7ed1c24461159e325405); shapes of training steps reach less. Estimates.
//   attention torch's flash attention on H100 runs at 287 to 304 TFLOPS for heads of 128
//             (github.com/pytorch/benchmark/pull/2296); FlashAttention-2 at 50 to 73 % on A100
//             (arXiv 2307.08691), its backward less. B200: H100's fraction, no measurement found.
//   500 W     H100 SXM with 96 GB of HBM2e at 2.4 TB/s and a power limit of 500 W, on which
//             torchtitan publishes its figures (benchmarks/llama3_h100_202412_torchtitan.md). The
//             fractions of products and attention are h100's times 0.83, which reproduces one of
//             these figures: docs/costs.md.
//   traffic   streaming kernels reach about 0.9 of the data sheet's bandwidth. An estimate.
//   host      the link of the data sheets: PCIe 5.0 x16 (128 GB/s both ways together; A100: 4.0,
//             64 GB/s). Copies of pinned memory reach about 0.85 of a direction (packet headers,
//             requests). An estimate. Both directions run at once. A CPU's own memory is copied as
//             any other.
//   kernelNs  gaps between kernels that are queued ahead, and ramps. An estimate.
//   cpu       one thread of a server core at 3 GHz with two 256-bit fused multiply-adds per cycle
//             (32 f32 operations); 12 GB/s is what one core of a cloud machine copies at. torch's
//             dispatch of one call: 0.8 us, measured. Estimates; a profile beats them.
//
//===----------------------------------------------------------------------===//

#include "fsdp/CostModel/Device.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace mlir;
using namespace fsdp::cost;

static constexpr int64_t kMiB = int64_t(1) << 20;
static constexpr int64_t kReservedBytes = 1344 * kMiB;

static constexpr Device kDevices[] = {
    {.name = "a100",
     .fullName = "NVIDIA A100 SXM 80GB",
     .f16FlopsPerSec = 312e12,
     .f32FlopsPerSec = 19.5e12,
     .f64FlopsPerSec = 19.5e12,
     .memoryBytesPerSec = 2.039e12,
     .matrixProductFraction = 0.80,
     .attentionFraction = 0.50,
     .memoryFraction = 0.9,
     .hostBytesPerSec = 32e9,
     .hostFraction = 0.85,
     .kernelNs = 2500,
     .memoryBytes = 81920 * kMiB,
     .reservedBytes = kReservedBytes,
     .network = "dgx-a100"},
    {.name = "h100",
     .fullName = "NVIDIA H100 SXM",
     .f16FlopsPerSec = 989e12,
     .f32FlopsPerSec = 67e12,
     .f64FlopsPerSec = 67e12,
     .memoryBytesPerSec = 3.35e12,
     .matrixProductFraction = 0.70,
     .attentionFraction = 0.30,
     .memoryFraction = 0.9,
     .hostBytesPerSec = 64e9,
     .hostFraction = 0.85,
     .kernelNs = 2000,
     .memoryBytes = 81559 * kMiB,
     .reservedBytes = kReservedBytes,
     .network = "dgx-h100"},
    {.name = "h100-500w",
     .fullName = "NVIDIA H100 SXM 96GB at 500 W",
     .f16FlopsPerSec = 989e12,
     .f32FlopsPerSec = 67e12,
     .f64FlopsPerSec = 67e12,
     .memoryBytesPerSec = 2.4e12,
     .matrixProductFraction = 0.58,
     .attentionFraction = 0.25,
     .memoryFraction = 0.9,
     .hostBytesPerSec = 64e9,
     .hostFraction = 0.85,
     .kernelNs = 2000,
     .memoryBytes = 97871 * kMiB,
     .reservedBytes = kReservedBytes,
     .network = "dgx-h100"},
    {.name = "h200",
     .fullName = "NVIDIA H200 SXM",
     .f16FlopsPerSec = 989e12,
     .f32FlopsPerSec = 67e12,
     .f64FlopsPerSec = 67e12,
     .memoryBytesPerSec = 4.8e12,
     .matrixProductFraction = 0.70,
     .attentionFraction = 0.30,
     .memoryFraction = 0.9,
     .hostBytesPerSec = 64e9,
     .hostFraction = 0.85,
     .kernelNs = 2000,
     .memoryBytes = 143771 * kMiB,
     .reservedBytes = kReservedBytes,
     .network = "dgx-h200"},
    {.name = "b200",
     .fullName = "NVIDIA HGX B200",
     .f16FlopsPerSec = 2250e12,
     .f32FlopsPerSec = 80e12,
     .f64FlopsPerSec = 40e12,
     .memoryBytesPerSec = 8e12,
     .matrixProductFraction = 0.70,
     .attentionFraction = 0.30,
     .memoryFraction = 0.9,
     .hostBytesPerSec = 64e9,
     .hostFraction = 0.85,
     .kernelNs = 2000,
     .memoryBytes = 183359 * kMiB,
     .reservedBytes = kReservedBytes,
     .network = "dgx-b200"},
    {.name = "cpu",
     .fullName = "one thread of a server CPU",
     .f16FlopsPerSec = 12e9,
     .f32FlopsPerSec = 96e9,
     .f64FlopsPerSec = 48e9,
     .memoryBytesPerSec = 12e9,
     .matrixProductFraction = 0.75,
     .attentionFraction = 0.35,
     .memoryFraction = 0.9,
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
                                                                : f32FlopsPerSec;
  return work.flops / peak * 1e9;
}

double Device::getDurationNs(const OperatorWork &work) const {
  if (work.runsNothing)
    return 0;
  double fraction =
      work.arithmetic == Arithmetic::Attention ? attentionFraction : matrixProductFraction;
  double arithmeticNs = getPeakNs(work) / fraction;
  double trafficNs = static_cast<double>(work.bytes) / (memoryBytesPerSec * memoryFraction) * 1e9;
  return kernelNs + std::max(arithmeticNs, trafficNs);
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
