//===- Extensions.cpp - A library of operators around collectives ----------===//
//
// The pair `test_half`, by which parameters travel as f16, and the hook `test_shrink`.
//
//===----------------------------------------------------------------------===//

#include <ATen/Functions.h>
#include <torch/library.h>

#include <algorithm>

using at::Tensor;

static Tensor &encode(const Tensor &part, Tensor &bytes) {
  bytes.view(at::kHalf).copy_(part);
  return bytes;
}

static Tensor &decode(const Tensor &parts, Tensor &parameter) {
  Tensor flat = parameter.view({-1});
  const Tensor values = parts.contiguous().view(at::kHalf).view({-1});
  flat.copy_(values.narrow(0, 0, flat.numel()));
  return parameter;
}

static Tensor &shrink(Tensor &reduced) { return reduced.mul_(0.5).clamp_(-0.01, 0.01); }

TORCH_LIBRARY_FRAGMENT(fsdp_extension, library) {
  auto anywhere = [](auto function) {
    return torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, function);
  };
  library.def("test_half_encode(Tensor part, *, Tensor(a!) bytes) -> Tensor(a!)", anywhere(encode));
  library.def("test_half_decode(Tensor parts, *, Tensor(a!) parameter) -> Tensor(a!)",
              anywhere(decode));
  library.def("test_shrink_hook(Tensor(a!) reduced) -> Tensor(a!)", anywhere(shrink));
}
