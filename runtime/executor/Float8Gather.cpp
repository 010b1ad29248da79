//===- Float8Gather.cpp - Casts of shards to 8-bit floats ------------------===//
//
// A parameter that is gathered as float8 is cast on the ranks that hold its parts, by a scale of
// the largest absolute value (amax) of the whole parameter. Elements `begin` to `end` of the group
// are the parameter's; `shard` is part `part` of the group. Torch's operators in the model's order
// give the bits of a cast after the gather.
//
//===----------------------------------------------------------------------===//

#include <ATen/Functions.h>
#include <torch/library.h>

#include <algorithm>

using at::Tensor;

/// Elements that are cast at once, which bounds the temporaries.
static constexpr int64_t kPieceElements = int64_t(1) << 20;

/// Calls `visit` with the parameter's elements in the shard: `first`, `count`.
template <typename Visit>
static void forEachPiece(const Tensor &shard, int64_t part, int64_t begin, int64_t end,
                         Visit &&visit) {
  const int64_t size = shard.numel();
  const int64_t first = std::clamp(begin - part * size, int64_t(0), size);
  const int64_t last = std::clamp(end - part * size, int64_t(0), size);
  for (int64_t i = first; i < last; i += kPieceElements)
    visit(i, std::min(kPieceElements, last - i));
}

/// 0 if the shard has no element of the parameter. A NaN makes the result NaN.
static Tensor &amax(const Tensor &shard, int64_t part, int64_t begin, int64_t end, Tensor &out) {
  out.zero_();
  forEachPiece(shard, part, begin, end, [&](int64_t first, int64_t count) {
    at::maximum_out(out, out, shard.narrow(0, first, count).abs().max());
  });
  return out;
}

/// `amax`: of the whole parameter, of all ranks.
static Tensor &cast(const Tensor &shard, int64_t part, int64_t begin, int64_t end,
                    const Tensor &amax, std::optional<at::ScalarType> from, at::ScalarType scaleIn,
                    double eps, bool saturated, Tensor &out) {
  TORCH_CHECK(out.numel() == shard.numel(), "a cast to float8 of ", shard.numel(), " elements has ",
              out.numel(), " results");
  const double largest = out.scalar_type() == at::kFloat8_e4m3fn ? 448.0 : 57344.0;
  Tensor rounded = from ? amax.to(*from) : amax;
  const Tensor scale = rounded.to(scaleIn).clamp(eps).reciprocal().mul(largest).to(at::kFloat);
  forEachPiece(shard, part, begin, end, [&](int64_t first, int64_t count) {
    Tensor values = shard.narrow(0, first, count);
    if (from)
      values = values.to(*from).to(at::kFloat);
    values = values.mul(scale);
    if (saturated)
      values = values.clamp(-largest, largest);
    out.narrow(0, first, count).copy_(values);
  });
  return out;
}

TORCH_LIBRARY_FRAGMENT(fsdp_float8, library) {
  library.def("amax(Tensor shard, int part, int begin, int end, *, Tensor(a!) out) -> Tensor(a!)",
              torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, amax));
  library.def(
      "cast(Tensor shard, int part, int begin, int end, Tensor amax, ScalarType? from_dtype, "
      "ScalarType scale_dtype, float eps, bool saturated, *, Tensor(a!) out) -> Tensor(a!)",
      torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, cast));
}
