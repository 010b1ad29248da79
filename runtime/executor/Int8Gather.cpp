//===- Int8Gather.cpp - Gathers of 8 bits per parameter --------------------===//
//
// The extension `int8`: a rank's part of a parameter is gathered as multiples of a scale, rounded
// to nearest, one byte each, followed by the scale in fp32. The scale is a 127th of the part's
// largest absolute value. A NaN or an infinity in a part spreads to all elements that are decoded
// from it.
//
//===----------------------------------------------------------------------===//

#include <ATen/Functions.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>

using at::Tensor;

static constexpr int64_t kScaleBytes = sizeof(float);

static Tensor &encode(const Tensor &part, Tensor &bytes) {
  const int64_t count = part.numel();
  TORCH_CHECK(bytes.numel() == count + kScaleBytes, "int8 encodes ", count, " elements as ",
              count + kScaleBytes, " bytes, the plan says ", bytes.numel());
  // At least the smallest normal number, since a part of zeros is divided by its scale.
  Tensor scale =
      part.abs().amax().div_(127).clamp_min_(std::numeric_limits<float>::min()).view({1});
  bytes.narrow(0, 0, count).view(at::kChar).copy_(part.div(scale).round_());
  bytes.narrow(0, count, kScaleBytes).copy_(scale.view(at::kByte));
  return bytes;
}

/// `parts`: the bytes of all ranks, a row each. The last rows may be padding.
static Tensor &decode(const Tensor &parts, Tensor &parameter) {
  Tensor flat = parameter.view({-1});
  const int64_t partElements = parts.size(1) - kScaleBytes;
  TORCH_CHECK(partElements > 0 && partElements * parts.size(0) >= flat.numel(), "int8 decodes ",
              parts.size(0), " parts of ", parts.size(1), " bytes to ", flat.numel(), " elements");
  for (int64_t rank = 0; rank < parts.size(0); ++rank) {
    const int64_t first = rank * partElements;
    const int64_t count = std::min(partElements, flat.numel() - first);
    if (count <= 0)
      break;
    const Tensor part = parts.select(0, rank);
    // Cloned, since the bytes of the scale are not aligned for fp32.
    const Tensor scale = part.narrow(0, partElements, kScaleBytes).clone().view(at::kFloat);
    flat.narrow(0, first, count)
        .copy_(part.narrow(0, 0, count).view(at::kChar).to(at::kFloat).mul_(scale));
  }
  return parameter;
}

TORCH_LIBRARY_FRAGMENT(fsdp_extension, library) {
  library.def("int8_encode(Tensor part, *, Tensor(a!) bytes) -> Tensor(a!)",
              torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, encode));
  library.def("int8_decode(Tensor parts, *, Tensor(a!) parameter) -> Tensor(a!)",
              torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, decode));
}
