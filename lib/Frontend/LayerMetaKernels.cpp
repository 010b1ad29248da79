//===- LayerMetaKernels.cpp - Shapes of whole layers' operators -----------===//
//
// Normalization, pooling, attention, recurrent layers.
//
//===----------------------------------------------------------------------===//

#include "MetaKernels.h"
#include "OutsideOfCapture.h"
#include "ShapesByRunning.h"

#include <ATen/AccumulateType.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/mkldnn_rnn_layer.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

using namespace fsdp::frontend;
using at::Tensor;
using c10::SymInt;
using c10::SymIntArrayRef;
using OptionalTensor = std::optional<Tensor>;
using Tensors2 = std::tuple<Tensor, Tensor>;
using Tensors3 = std::tuple<Tensor, Tensor, Tensor>;

static Tensor makeVector(int64_t size, const Tensor &like) {
  return at::empty({size}, like.options());
}

/// A tensor with the layout [batch, seq, heads, dim], viewed as [batch, heads, seq, dim].
static Tensor makeHeadsInner(const Tensor &like) {
  return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.options())
      .transpose(1, 2);
}

/// A tensor without gaps whose dimensions have the same order in memory as those of `like`, with
/// `last` elements in its last dimension.
static Tensor makeLike(const Tensor &like, int64_t last) {
  if (last == like.size(-1))
    return at::empty_like(like);
  std::vector<int64_t> sizes = like.sizes().vec(), strides(sizes.size());
  sizes.back() = last;
  std::vector<size_t> fromInside(sizes.size());
  std::iota(fromInside.rbegin(), fromInside.rend(), 0);
  auto strideOf = [&](size_t dim) { return like.stride(static_cast<int64_t>(dim)); };
  std::ranges::stable_sort(fromInside, std::less(), strideOf);
  int64_t stride = 1;
  for (size_t dim : fromInside) {
    strides[dim] = stride;
    stride *= sizes[dim];
  }
  return at::empty_strided(sizes, strides, like.options());
}

/// Statistics of a normalization on a GPU: in fp32 for half precision.
static Tensor makeCudaStatistics(at::IntArrayRef sizes, const Tensor &x) {
  return at::empty(sizes,
                   x.options().dtype(at::toAccumulateType(x.scalar_type(), /*is_cuda=*/true)));
}

/// Sizes of statistics over the last `inner` dimensions, which become 1.
static std::vector<int64_t> outerSizes(const Tensor &x, size_t inner) {
  std::vector<int64_t> sizes = x.sizes().vec();
  std::fill(sizes.end() - static_cast<std::ptrdiff_t>(inner), sizes.end(), 1);
  return sizes;
}

void MetaKernels::addCudaNormalization() {
  using Weight = const OptionalTensor &;
  replace(
      "_fused_rms_norm",
      +[](const Tensor &x, at::IntArrayRef normalized, Weight, std::optional<double>) {
        return Tensors2(at::empty_like(x, at::MemoryFormat::Contiguous),
                        makeCudaStatistics(outerSizes(x, normalized.size()), x));
      });
  replace(
      "_fused_rms_norm_backward", +[](const Tensor &, const Tensor &x, at::IntArrayRef,
                                      const Tensor &, Weight weight, std::array<bool, 2> wanted) {
        auto make = [](const Tensor &like) {
          return at::empty_like(like, at::MemoryFormat::Contiguous);
        };
        return Tensors2(wanted[0] ? make(x) : Tensor(),
                        wanted[1] && weight && weight->defined() ? make(*weight) : Tensor());
      });
  replace(
      "native_layer_norm", +[](const Tensor &x, SymIntArrayRef normalized, Weight, Weight, double) {
        const std::vector<int64_t> sizes = outerSizes(x, normalized.size());
        return Tensors3(at::empty_like(x, at::MemoryFormat::Contiguous),
                        makeCudaStatistics(sizes, x), makeCudaStatistics(sizes, x));
      });
  replace(
      "native_batch_norm",
      +[](const Tensor &x, Weight, Weight, Weight, Weight, bool training, double, double) {
        int64_t channels = training ? x.size(1) : 0;
        return Tensors3(at::empty_like(x), makeCudaStatistics(channels, x),
                        makeCudaStatistics(channels, x));
      });
  replace(
      "_native_batch_norm_legit",
      +[](const Tensor &x, Weight, Weight, Tensor &, Tensor &, bool training, double, double) {
        int64_t channels = training ? x.size(1) : 0;
        return Tensors3(at::empty_like(x), makeCudaStatistics(channels, x),
                        makeCudaStatistics(channels, x));
      });
}

/// The tensor whose dtype the statistics of a norm have on a CPU, and the gradients of its weight
/// and bias: the first parameter or running statistic that exists, or else `x`.
static const Tensor &getStatisticsLike(const Tensor &x,
                                       std::initializer_list<const OptionalTensor *> parameters) {
  for (const OptionalTensor *parameter : parameters)
    if (*parameter && (*parameter)->defined())
      return **parameter;
  return x;
}

/// A result of the CPU's batch norm. A tensor that is both contiguous and channels-last, such as
/// images of one pixel, has the strides of contiguous.
static Tensor makeNormalized(const Tensor &x) {
  return x.is_contiguous() ? at::empty_like(x, at::MemoryFormat::Contiguous) : makeSuggested(x);
}

static Tensors3 makeBatchNorm(const Tensor &x, bool training, const Tensor &statisticsLike) {
  const int64_t channels = training ? x.size(1) : 0;
  return Tensors3(makeNormalized(x), makeVector(channels, statisticsLike),
                  makeVector(channels, statisticsLike));
}

void MetaKernels::addNormalization(Target target) {
  using Weight = const OptionalTensor &;
  if (target == Target::Cpu) // torch's kernel for meta promotes to the weight's dtype
    replace(
        "native_layer_norm",
        +[](const Tensor &x, SymIntArrayRef normalized, Weight weight, Weight bias, double) {
          auto options = getStatisticsLike(x, {&weight, &bias}).options();
          const std::vector<int64_t> sizes = outerSizes(x, normalized.size());
          return Tensors3(at::empty_like(x, at::MemoryFormat::Contiguous),
                          at::empty(sizes, options), at::empty(sizes, options));
        });
  add(
      "native_layer_norm_backward",
      +[](const Tensor &, const Tensor &x, SymIntArrayRef, const Tensor &, const Tensor &,
          Weight weight, Weight bias, std::array<bool, 3> mask) {
        return Tensors3(mask[0] ? at::empty_like(x, at::MemoryFormat::Contiguous) : Tensor(),
                        mask[1] && weight ? at::empty_like(*weight) : Tensor(),
                        mask[2] && bias ? at::empty_like(*bias) : Tensor());
      });
  replace(
      "native_group_norm", +[](const Tensor &x, Weight weight, Weight, SymInt batch, SymInt, SymInt,
                               int64_t groups, double) {
        auto options = weight && weight->defined() ? weight->options() : x.options();
        Tensor mean = at::empty({batch.expect_int(), groups}, options);
        return Tensors3(at::empty_like(x, x.suggest_memory_format()), mean, at::empty_like(mean));
      });
  add(
      "native_group_norm_backward",
      +[](const Tensor &, const Tensor &x, const Tensor &, const Tensor &, Weight weight, SymInt,
          SymInt channels, SymInt, int64_t, std::array<bool, 3> mask) {
        Tensor like = weight && weight->defined() ? *weight : x;
        return Tensors3(mask[0] ? at::empty_like(x, x.suggest_memory_format()) : Tensor(),
                        mask[1] ? makeVector(channels.expect_int(), like) : Tensor(),
                        mask[2] ? makeVector(channels.expect_int(), like) : Tensor());
      });
  add(
      "native_batch_norm", +[](const Tensor &x, Weight weight, Weight bias, Weight mean,
                               Weight variance, bool training, double, double) {
        return makeBatchNorm(x, training, getStatisticsLike(x, {&weight, &bias, &mean, &variance}));
      });
  add(
      "_native_batch_norm_legit", +[](const Tensor &x, Weight weight, Weight bias, Tensor &mean,
                                      Tensor &, bool training, double, double) {
        return makeBatchNorm(x, training, getStatisticsLike(mean, {&weight, &bias}));
      });
  static auto normBackward = [](Tensor input, const Tensor &like, std::array<bool, 3> mask) {
    const int64_t channels = input.size(1);
    return Tensors3(mask[0] ? input : Tensor(), mask[1] ? makeVector(channels, like) : Tensor(),
                    mask[2] ? makeVector(channels, like) : Tensor());
  };
  if (target == Target::Cpu)
    add(
        "native_batch_norm_backward",
        +[](const Tensor &, const Tensor &x, Weight weight, Weight mean, Weight variance, Weight,
            Weight, bool, double, std::array<bool, 3> mask) {
          return normBackward(makeSuggested(x), getStatisticsLike(x, {&weight, &mean, &variance}),
                              mask);
        });
  else
    add(
        "native_batch_norm_backward",
        +[](const Tensor &, const Tensor &x, Weight weight, Weight mean, Weight variance, Weight,
            Weight, bool, double, std::array<bool, 3> mask) {
          return normBackward(at::empty_like(x), getStatisticsLike(x, {&weight, &mean, &variance}),
                              mask);
        });
}

static std::vector<int64_t> getNormSizes(const Tensor &v, int64_t dim) {
  std::vector<int64_t> sizes(v.dim(), 1);
  sizes[dim] = v.size(dim);
  return sizes;
}

void MetaKernels::addWeightNorm() {
  add(
      "_weight_norm_interface", +[](const Tensor &v, const Tensor &g, int64_t dim) {
        // Norms of bf16 and f16 are in fp32, on CPUs and on GPUs.
        auto type = at::isReducedFloatingType(g.scalar_type()) ? at::kFloat : g.scalar_type();
        return Tensors2(at::empty_like(v),
                        at::empty(getNormSizes(v, dim), g.options().dtype(type)));
      });
  add(
      "_weight_norm_interface_backward",
      +[](const Tensor &, const Tensor &v, const Tensor &g, const Tensor &, int64_t) {
        return Tensors2(at::empty_like(v), at::empty_like(g));
      });
}

void MetaKernels::addPooling() {
  add(
      "_adaptive_avg_pool2d", +[](const Tensor &x, SymIntArrayRef size) {
        std::vector<int64_t> sizes = x.sizes().vec();
        sizes[sizes.size() - 2] = size[0].expect_int();
        sizes[sizes.size() - 1] = size[1].expect_int();
        return at::empty(sizes, x.options().memory_format(x.suggest_memory_format()));
      });
  add(
      "_adaptive_avg_pool2d_backward", +[](const Tensor &, const Tensor &x) {
        return at::empty(x.sizes(), x.options().memory_format(x.suggest_memory_format()));
      });
}

void MetaKernels::addAttention() {
  using Mask = const OptionalTensor &;
  using Scale = std::optional<double>;
  add(
      "_scaled_dot_product_flash_attention_for_cpu",
      +[](const Tensor &q, const Tensor &, const Tensor &, double, bool, Mask, Scale) {
        auto type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
        Tensor sums = at::empty({q.size(0), q.size(2), q.size(1)}, q.options().dtype(type));
        return Tensors2(at::empty_like(q), sums.transpose(1, 2));
      });
  add(
      "_scaled_dot_product_flash_attention_for_cpu_backward",
      +[](const Tensor &, const Tensor &q, const Tensor &k, const Tensor &v, const Tensor &,
          const Tensor &, double, bool, Mask,
          Scale) { return Tensors3(makeHeadsInner(q), makeHeadsInner(k), makeHeadsInner(v)); });
  add(
      "_scaled_dot_product_flash_attention",
      // Results have the layouts of q, k and v, which keep their strides if they have no gaps.
      +[](const Tensor &q, const Tensor &k, const Tensor &, double, bool, bool, Scale) {
        int64_t b = q.size(0), h = q.size(1), t = q.size(2);
        auto state = q.options().dtype(at::kUInt64);
        return std::make_tuple(at::empty_like(q),
                               at::empty({b, h, t}, q.options().dtype(at::kFloat)), Tensor(),
                               Tensor(), SymInt(t), SymInt(k.size(2)), at::empty({2}, state),
                               at::empty({}, state), at::empty({0}, q.options()));
      });
  add(
      "_scaled_dot_product_flash_attention_backward",
      +[](const Tensor &, const Tensor &q, const Tensor &k, const Tensor &v, const Tensor &,
          const Tensor &, const Tensor &, const Tensor &, SymInt, SymInt, double, bool,
          const Tensor &, const Tensor &,
          Scale) { return Tensors3(at::empty_like(q), at::empty_like(k), at::empty_like(v)); });
}

void MetaKernels::addCudaAttention() {
  using Mask = const OptionalTensor &;
  using Scale = std::optional<double>;
  add(
      "_scaled_dot_product_efficient_attention",
      +[](const Tensor &q, const Tensor &, const Tensor &v, Mask, bool needsSums, double, bool,
          Scale) {
        int64_t b = q.size(0), h = q.size(1), t = q.size(2);
        auto state = q.options().dtype(at::kLong);
        constexpr int64_t kAlignment = 32;
        int64_t sums = needsSums ? (t + kAlignment - 1) / kAlignment * kAlignment : 0;
        return std::make_tuple(at::empty({b, t, h, v.size(3)}, q.options()).transpose(1, 2),
                               at::empty({b, h, sums}, q.options().dtype(at::kFloat)),
                               at::empty({}, state), at::empty({}, state));
      });
  add(
      "_scaled_dot_product_efficient_attention_backward",
      +[](const Tensor &, const Tensor &q, const Tensor &k, const Tensor &v, const Tensor &mask,
          const Tensor &, const Tensor &, const Tensor &, const Tensor &, double,
          std::array<bool, 4> wanted, bool, Scale) {
        Tensor ofMask;
        if (mask.defined() && wanted[3]) {
          std::vector<int64_t> sizes = mask.sizes().vec();
          constexpr int64_t kAlignment = 16;
          sizes.back() = (sizes.back() + kAlignment - 1) / kAlignment * kAlignment;
          ofMask = at::empty(sizes, mask.options()).narrow(-1, 0, mask.size(-1));
        }
        return std::make_tuple(makeHeadsInner(q), makeHeadsInner(k), makeHeadsInner(v), ofMask);
      });
  add(
      "_scaled_dot_product_cudnn_attention", +[](const Tensor &q, const Tensor &k, const Tensor &v,
                                                 Mask, bool, double, bool, bool, Scale) {
        int64_t b = q.size(0), h = q.size(1), t = q.size(2);
        auto state = q.options().dtype(at::kLong);
        return std::make_tuple(makeLike(q, v.size(3)),
                               at::empty({b, h, t, 1}, q.options().dtype(at::kFloat)), Tensor(),
                               Tensor(), SymInt(t), SymInt(k.size(2)), at::empty({}, state),
                               at::empty({}, state), Tensor());
      });
  add(
      "_scaled_dot_product_cudnn_attention_backward",
      +[](const Tensor &, const Tensor &q, const Tensor &k, const Tensor &v, const Tensor &,
          const Tensor &, const Tensor &, const Tensor &, const Tensor &, const Tensor &,
          const Tensor &, SymInt, SymInt, double, bool,
          Scale) { return Tensors3(at::empty_like(q), at::empty_like(k), at::empty_like(v)); });
}

/// The indices of the largest elements exist only for mode `max`. Source: EmbeddingBag.cu.
void MetaKernels::addCudaBags() {
  auto bags = +[](const Tensor &weight, const Tensor &indices, const Tensor &offsets, bool,
                  int64_t mode, bool, const OptionalTensor &, bool includesLast, int64_t) {
    constexpr int64_t kMaximum = 2;
    const int64_t count = offsets.size(0) - includesLast;
    auto most = at::empty(mode == kMaximum ? at::DimVector{offsets.size(0), weight.size(1)}
                                           : at::DimVector{0},
                          indices.options());
    return std::tuple(at::empty({count, weight.size(1)}, weight.options()),
                      at::empty({indices.size(0)}, indices.options()),
                      at::empty(offsets.sizes(), indices.options()), most);
  };
  replace("_embedding_bag", bags);
  replace("_embedding_bag_forward_only", bags);
}

/// torch's rule (create_grouped_gemm_output_tensor in ATen/native/GroupedMMUtils.h): rows begin at
/// multiples of 16 bytes. The offsets are the ends of groups, in the dimension that the factors
/// share or in the rows.
void MetaKernels::addGroupedProduct() {
  // On meta torch uses the CPU's kernel, which reads the offsets.
  replace(
      "_grouped_mm", +[](const Tensor &left, const Tensor &right, const OptionalTensor &offsets,
                         const OptionalTensor &, std::optional<at::ScalarType> dtype) {
        bool isLeftFlat = left.dim() == 2, isRightFlat = right.dim() == 2;
        int64_t rows = left.size(isLeftFlat ? 0 : 1), columns = right.size(-1);
        auto options = left.options().dtype(dtype.value_or(left.scalar_type()));
        auto aligned = static_cast<int64_t>(16 / options.dtype().itemsize());
        int64_t row = (columns + aligned - 1) / aligned * aligned;
        if (isLeftFlat != isRightFlat)
          return at::empty_strided({rows, columns}, {row, 1}, options);
        int64_t groups = isLeftFlat ? offsets->size(0) : left.size(0);
        return at::empty_strided({groups, rows, columns}, {rows * row, row, 1}, options);
      });
}

/// On CPUs torch's kernel, which takes one scale for a whole matrix, gives the shapes.
void MetaKernels::addCudaScaledProduct() {
  replace(
      "_scaled_mm", +[](const Tensor &left, const Tensor &right, const Tensor &, const Tensor &,
                        const OptionalTensor &, const OptionalTensor &,
                        std::optional<at::ScalarType> dtype, bool) {
        return at::empty({left.size(0), right.size(1)},
                         left.options().dtype(dtype.value_or(left.scalar_type())));
      });
}

/// x with other sizes in its last three dimensions.
static Tensor shuffle(const Tensor &x, std::initializer_list<int64_t> last) {
  std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end() - 3);
  sizes.insert(sizes.end(), last);
  return at::empty(sizes, x.options().memory_format(x.suggest_memory_format()));
}

/// Composite on other devices; a CPU has kernels that keep channels last.
void MetaKernels::addPixelShuffles() {
  replace(
      "pixel_shuffle", +[](const Tensor &x, int64_t factor) {
        return shuffle(x,
                       {x.size(-3) / (factor * factor), x.size(-2) * factor, x.size(-1) * factor});
      });
  replace(
      "pixel_unshuffle", +[](const Tensor &x, int64_t factor) {
        return shuffle(x, {x.size(-3) * factor * factor, x.size(-2) / factor, x.size(-1) / factor});
      });
}

static Tensor makeMeta(const Tensor &tensor) { return makeOn(at::kMeta, tensor); }

static Tensor makeZeros(const Tensor &like) {
  return at::zeros(like.sizes(), like.options().device(at::kCPU));
}

/// Only oneDNN knows the size of the workspace: the layer runs on zeros.
void MetaKernels::addRecurrent() {
  replace(
      "mkldnn_rnn_layer",
      +[](const Tensor &x, const Tensor &w0, const Tensor &w1, const Tensor &w2, const Tensor &w3,
          const Tensor &hx, const Tensor &cx, bool reverse, at::IntArrayRef batchSizes,
          int64_t mode, int64_t hiddenSize, int64_t numLayers, bool hasBiases, bool bidirectional,
          bool batchFirst, bool train) {
        OutsideOfCapture outside;
        auto [output, hy, cy, workspace] = at::mkldnn_rnn_layer(
            makeZeros(x), makeZeros(w0), makeZeros(w1), makeZeros(w2), makeZeros(w3), makeZeros(hx),
            makeZeros(cx), reverse, batchSizes, mode, hiddenSize, numLayers, hasBiases,
            bidirectional, batchFirst, train);
        return std::make_tuple(makeMeta(output), makeMeta(hy), makeMeta(cy), makeMeta(workspace));
      });
  replace(
      "mkldnn_rnn_layer_backward",
      +[](const Tensor &x, const Tensor &w0, const Tensor &w1, const Tensor &w2, const Tensor &w3,
          const Tensor &hx, const Tensor &cx, const Tensor &, const Tensor &, const Tensor &,
          const OptionalTensor &, const OptionalTensor &, const OptionalTensor &, bool, int64_t,
          int64_t, int64_t, bool, bool, bool, at::IntArrayRef, bool, const Tensor &) {
        auto make = [](const Tensor &like) { return at::empty(like.sizes(), like.options()); };
        // Without biases, w2 and w3 are matrices of zeros, but their gradients are a bias's.
        auto bias = [&](const Tensor &like) { return makeVector(w0.size(0), like); };
        return std::make_tuple(make(x), make(w0), make(w1), bias(w2), bias(w3), make(hx), make(cx));
      });
}
