//===- MetaKernels.cpp - Shapes of operators that torch lacks -------------===//

#include "MetaKernels.h"

#include <ATen/AccumulateType.h>
#include <ATen/ExpandUtils.h>
#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>

#include <algorithm>

using namespace fsdp::frontend;
using at::Tensor;
using c10::DispatchKey;
using c10::SymInt;
using c10::SymIntArrayRef;
using OptionalTensor = std::optional<Tensor>;
using Tensors2 = std::tuple<Tensor, Tensor>;
using Tensors3 = std::tuple<Tensor, Tensor, Tensor>;

/// Whether torch has a kernel of its own. For Meta, hasComputedKernelForDispatchKey is always true.
static bool hasMetaKernel(const c10::OperatorHandle &op) {
  for (DispatchKey key : {DispatchKey::Meta, DispatchKey::CompositeExplicitAutograd,
                          DispatchKey::CompositeExplicitAutogradNonFunctional,
                          DispatchKey::CompositeImplicitAutograd})
    if (op.hasKernelForDispatchKey(key))
      return true;
  return false;
}

template <typename Function> void MetaKernels::replace(const char *name, Function *function) {
  library.impl(name, function);
}

template <typename Function> void MetaKernels::add(const char *name, Function *function) {
  std::string text = name;
  size_t dot = text.find('.');
  auto op = c10::Dispatcher::singleton().findSchema(
      {"aten::" + text.substr(0, dot), dot == std::string::npos ? "" : text.substr(dot + 1)});
  if (op && !hasMetaKernel(*op))
    replace(name, function);
}

/// What TensorIterator would allocate for an elementwise operator of these operands.
static Tensor makeElementwise(std::initializer_list<Tensor> operands, at::ScalarType dtype) {
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).check_all_same_device(false).add_owned_output(Tensor());
  for (const Tensor &operand : operands)
    config.add_owned_const_input(operand);
  config.declare_static_dtype_and_device(dtype, at::kMeta);
  return config.build().output(0);
}

static Tensor makeVector(int64_t size, const Tensor &like) {
  return at::empty({size}, like.options());
}

/// A tensor that lies in memory as [batch, seq, heads, dim], seen as [batch, heads, seq, dim].
static Tensor makeHeadsInner(const Tensor &like) {
  return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.options())
      .transpose(1, 2);
}

MetaKernels::MetaKernels(Target target) {
  if (target == Target::Cuda)
    addCudaNormalization(); // before those of the CPU, which are added where there is none
  addElementwise();
  addReductions();
  addLosses();
  addNormalization();
  addConvolution();
  addAttention();
}

void MetaKernels::addElementwise() {
  auto unary = +[](const Tensor &x) { return makeElementwise({x}, x.scalar_type()); };
  // Composites whose out-variants do not know meta.
  replace("abs", unary);
  replace(
      "bernoulli", +[](const Tensor &x, std::optional<at::Generator>) {
        return at::empty_like(x, at::MemoryFormat::Contiguous);
      });
  replace(
      "nan_to_num", +[](const Tensor &x, std::optional<double>, std::optional<double>,
                        std::optional<double>) { return makeElementwise({x}, x.scalar_type()); });
  auto logical =
      +[](const Tensor &x, const Tensor &y) { return makeElementwise({x, y}, at::kBool); };
  replace("logical_and", logical);
  replace("logical_or", logical);
  replace("logical_xor", logical);
  replace("logical_not", +[](const Tensor &x) { return makeElementwise({x}, at::kBool); });
  auto logicalInPlace = +[](Tensor &x, const Tensor &) -> Tensor & { return x; };
  replace("logical_and_", logicalInPlace);
  replace("logical_or_", logicalInPlace);
  replace("logical_xor_", logicalInPlace);
  replace("logical_not_", +[](Tensor &x) -> Tensor & { return x; });
  add(
      "floor_divide", +[](const Tensor &x, const Tensor &y) {
        return makeElementwise({x, y}, at::result_type(x, y));
      });
  add(
      "rsub.Tensor", +[](const Tensor &x, const Tensor &y, const at::Scalar &) {
        return makeElementwise({x, y}, at::result_type(x, y));
      });
  add("glu_backward", +[](const Tensor &, const Tensor &x, int64_t) { return at::empty_like(x); });
  add("relu", unary);
  add("hardswish", unary);
  add("isnan", +[](const Tensor &x) { return makeElementwise({x}, at::kBool); });
  add(
      "hardtanh", +[](const Tensor &x, const at::Scalar &, const at::Scalar &) {
        return makeElementwise({x}, x.scalar_type());
      });
  add(
      "hardtanh_backward",
      +[](const Tensor &grad, const Tensor &x, const at::Scalar &, const at::Scalar &) {
        return makeElementwise({grad, x}, x.scalar_type());
      });
  add(
      "hardswish_backward", +[](const Tensor &grad, const Tensor &x) {
        return makeElementwise({grad, x}, x.scalar_type());
      });
  add(
      "_prelu_kernel",
      +[](const Tensor &x, const Tensor &w) { return makeElementwise({x, w}, x.scalar_type()); });
  add(
      "_prelu_kernel_backward", +[](const Tensor &grad, const Tensor &x, const Tensor &w) {
        return Tensors2(makeElementwise({grad, x, w}, x.scalar_type()),
                        makeElementwise({grad, x, w}, x.scalar_type()));
      });
  add(
      "where.self", +[](const Tensor &condition, const Tensor &a, const Tensor &b) {
        return makeElementwise({condition, a, b}, at::result_type(a, b));
      });
  add(
      "where.self_out",
      +[](const Tensor &condition, const Tensor &a, const Tensor &b, Tensor &out) -> Tensor & {
        out.resize_(at::infer_size(condition.sizes(), at::infer_size(a.sizes(), b.sizes())));
        return out;
      });
  add(
      "native_dropout", +[](const Tensor &x, double, std::optional<bool>) {
        return Tensors2(makeElementwise({x}, x.scalar_type()),
                        at::empty(x.sizes(), x.options().dtype(at::kBool)));
      });
  add(
      "native_dropout_backward", +[](const Tensor &grad, const Tensor &mask, double) {
        return makeElementwise({grad, mask}, grad.scalar_type());
      });
  add(
      "flip", +[](const Tensor &x, at::IntArrayRef) {
        return at::empty_like(x, at::MemoryFormat::Preserve);
      });
  add(
      "roll", +[](const Tensor &x, SymIntArrayRef, at::IntArrayRef) {
        return at::empty_like(x, at::MemoryFormat::Preserve);
      });
}

void MetaKernels::addReductions() {
  auto whole = +[](const Tensor &x) { return at::empty({}, x.options()); };
  add("max", whole);
  add("min", whole);
  add("dot", +[](const Tensor &x, const Tensor &) { return at::empty({}, x.options()); });
  add(
      "prod", +[](const Tensor &x, std::optional<at::ScalarType> dtype) {
        bool promotes = at::isIntegralType(x.scalar_type(), /*includeBool=*/true);
        return at::empty({},
                         x.options().dtype(dtype.value_or(promotes ? at::kLong : x.scalar_type())));
      });
  static auto reduce = [](const Tensor &x, at::OptionalIntArrayRef dims, bool keep) {
    std::vector<int64_t> all(x.dim());
    std::iota(all.begin(), all.end(), 0);
    std::vector<int64_t> reduced = dims && !dims->empty() ? dims->vec() : all, sizes;
    for (int64_t &dim : reduced)
      dim = at::maybe_wrap_dim(dim, x.dim());
    for (int64_t dim : all) {
      bool isReduced = std::find(reduced.begin(), reduced.end(), dim) != reduced.end();
      if (!isReduced || keep)
        sizes.push_back(isReduced ? 1 : x.size(dim));
    }
    return at::empty(sizes, x.options());
  };
  using Correction = const std::optional<at::Scalar> &;
  auto one = +[](const Tensor &x, at::OptionalIntArrayRef dims, Correction, bool keep) {
    return reduce(x, dims, keep);
  };
  auto two = +[](const Tensor &x, at::OptionalIntArrayRef dims, Correction, bool keep) {
    return Tensors2(reduce(x, dims, keep), reduce(x, dims, keep));
  };
  add("var.correction", one);
  add("std.correction", one);
  add("var_mean.correction", two);
  add("std_mean.correction", two);
  add(
      "index_select", +[](const Tensor &x, int64_t dim, const Tensor &index) {
        std::vector<int64_t> sizes = x.sizes().vec();
        if (!sizes.empty())
          sizes[at::maybe_wrap_dim(dim, x.dim())] = index.numel();
        return at::empty(sizes, x.options());
      });
  add(
      "embedding_dense_backward",
      +[](const Tensor &grad, const Tensor &, SymInt rows, SymInt, bool) {
        return at::empty({rows.expect_int(), grad.size(-1)}, grad.options());
      });
}

void MetaKernels::addLosses() {
  auto smoothBackward = +[](const Tensor &, const Tensor &x, const Tensor &, int64_t, double) {
    return at::empty_like(x, at::MemoryFormat::Contiguous);
  };
  replace("huber_loss_backward", smoothBackward);
  replace("smooth_l1_loss_backward", smoothBackward);
  add(
      "mse_loss_backward", +[](const Tensor &grad, const Tensor &x, const Tensor &y, int64_t) {
        return makeElementwise({x, y, grad}, x.scalar_type());
      });
  add(
      "huber_loss", +[](const Tensor &x, const Tensor &y, int64_t reduction, double) {
        return reduction == 0 ? makeElementwise({x, y}, x.scalar_type())
                              : at::empty({}, x.options());
      });
  using Weight = const OptionalTensor &;
  add(
      "binary_cross_entropy", +[](const Tensor &x, const Tensor &, Weight, int64_t reduction) {
        return reduction == 0 ? at::empty_like(x) : at::empty({}, x.options());
      });
  add(
      "binary_cross_entropy_backward", +[](const Tensor &, const Tensor &x, const Tensor &, Weight,
                                           int64_t) { return at::empty_like(x); });
  add(
      "nll_loss2d_forward",
      +[](const Tensor &x, const Tensor &y, Weight, int64_t reduction, SymInt) {
        return Tensors2(at::empty(reduction == 0 ? y.sizes() : at::IntArrayRef(), x.options()),
                        at::empty({}, x.options()));
      });
  add(
      "nll_loss2d_backward",
      +[](const Tensor &, const Tensor &x, const Tensor &, Weight, int64_t, SymInt,
          const Tensor &) { return at::empty_like(x, at::MemoryFormat::Contiguous); });
  add(
      "log_sigmoid_forward",
      +[](const Tensor &x) { return Tensors2(at::empty_like(x), at::empty_like(x)); });
  add(
      "log_sigmoid_backward", +[](const Tensor &grad, const Tensor &x, const Tensor &) {
        return makeElementwise({x, grad}, x.scalar_type());
      });
}

/// Statistics of a normalization on a GPU, which keeps those of half precision in fp32.
static Tensor makeCudaStatistics(at::IntArrayRef sizes, const Tensor &x) {
  return at::empty(sizes,
                   x.options().dtype(at::toAccumulateType(x.scalar_type(), /*is_cuda=*/true)));
}

void MetaKernels::addCudaNormalization() {
  using Weight = const OptionalTensor &;
  replace(
      "native_layer_norm", +[](const Tensor &x, SymIntArrayRef normalized, Weight, Weight, double) {
        std::vector<int64_t> sizes = x.sizes().vec();
        std::fill(sizes.end() - static_cast<std::ptrdiff_t>(normalized.size()), sizes.end(), 1);
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

void MetaKernels::addNormalization() {
  using Weight = const OptionalTensor &;
  add(
      "native_layer_norm_backward",
      +[](const Tensor &, const Tensor &x, SymIntArrayRef, const Tensor &, const Tensor &,
          Weight weight, Weight bias, std::array<bool, 3> mask) {
        return Tensors3(mask[0] ? at::empty_like(x, at::MemoryFormat::Contiguous) : Tensor(),
                        mask[1] && weight ? at::empty_like(*weight) : Tensor(),
                        mask[2] && bias ? at::empty_like(*bias) : Tensor());
      });
  add(
      "native_group_norm_backward",
      +[](const Tensor &, const Tensor &x, const Tensor &, const Tensor &, Weight weight, SymInt,
          SymInt channels, SymInt, int64_t, std::array<bool, 3> mask) {
        Tensor like = weight && weight->defined() ? *weight : x;
        return Tensors3(mask[0] ? at::empty_like(x, at::MemoryFormat::Contiguous) : Tensor(),
                        mask[1] ? makeVector(channels.expect_int(), like) : Tensor(),
                        mask[2] ? makeVector(channels.expect_int(), like) : Tensor());
      });
  add(
      "native_batch_norm",
      +[](const Tensor &x, Weight, Weight, Weight, Weight, bool training, double, double) {
        int64_t channels = training ? x.size(1) : 0;
        return Tensors3(at::empty_like(x), makeVector(channels, x), makeVector(channels, x));
      });
  add(
      "_native_batch_norm_legit",
      +[](const Tensor &x, Weight, Weight, Tensor &, Tensor &, bool training, double, double) {
        int64_t channels = training ? x.size(1) : 0;
        return Tensors3(at::empty_like(x), makeVector(channels, x), makeVector(channels, x));
      });
  add(
      "native_batch_norm_backward", +[](const Tensor &, const Tensor &x, Weight, Weight, Weight,
                                        Weight, Weight, bool, double, std::array<bool, 3> mask) {
        return Tensors3(mask[0] ? at::empty_like(x) : Tensor(),
                        mask[1] ? makeVector(x.size(1), x) : Tensor(),
                        mask[2] ? makeVector(x.size(1), x) : Tensor());
      });
}

static Tensor makeConvolution(const Tensor &x, const Tensor &weight, SymIntArrayRef stride,
                              SymIntArrayRef padding, SymIntArrayRef dilation, bool transposed,
                              SymIntArrayRef outputPadding, const SymInt &groups) {
  auto at = [](SymIntArrayRef list, int64_t i) {
    return list[list.size() == 1 ? 0 : i].expect_int();
  };
  std::vector<int64_t> sizes{x.size(0),
                             transposed ? weight.size(1) * groups.expect_int() : weight.size(0)};
  for (int64_t i = 0; i < x.dim() - 2; ++i) {
    int64_t kernel = at(dilation, i) * (weight.size(i + 2) - 1) + 1, size = x.size(i + 2);
    sizes.push_back(transposed ? (size - 1) * at(stride, i) - 2 * at(padding, i) + kernel +
                                     at(outputPadding, i)
                               : (size + 2 * at(padding, i) - kernel) / at(stride, i) + 1);
  }
  return at::empty(sizes, x.options());
}

void MetaKernels::addConvolution() {
  using Bias = const OptionalTensor &;
  replace(
      "convolution", +[](const Tensor &x, const Tensor &weight, Bias, SymIntArrayRef stride,
                         SymIntArrayRef padding, SymIntArrayRef dilation, bool transposed,
                         SymIntArrayRef outputPadding, SymInt groups) {
        return makeConvolution(x, weight, stride, padding, dilation, transposed, outputPadding,
                               groups);
      });
  replace(
      "_convolution", +[](const Tensor &x, const Tensor &weight, Bias, SymIntArrayRef stride,
                          SymIntArrayRef padding, SymIntArrayRef dilation, bool transposed,
                          SymIntArrayRef outputPadding, SymInt groups, bool, bool, bool, bool) {
        return makeConvolution(x, weight, stride, padding, dilation, transposed, outputPadding,
                               groups);
      });
  replace(
      "convolution_backward",
      +[](const Tensor &grad, const Tensor &x, const Tensor &weight, at::OptionalSymIntArrayRef,
          SymIntArrayRef, SymIntArrayRef, SymIntArrayRef, bool, SymIntArrayRef, SymInt,
          std::array<bool, 3> mask) {
        return Tensors3(mask[0] ? at::empty_like(x) : Tensor(),
                        mask[1] ? at::empty_like(weight) : Tensor(),
                        mask[2] ? makeVector(grad.size(1), grad) : Tensor());
      });
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
      // Results lie as q, k and v do, which keep their strides where these leave no gaps.
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
