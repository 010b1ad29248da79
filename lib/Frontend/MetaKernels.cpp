//===- MetaKernels.cpp - Shapes of operators that torch lacks -------------===//

#include "MetaKernels.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>

#include <algorithm>
#include <numeric>

using namespace fsdp::frontend;
using at::Tensor;
using c10::DispatchKey;
using c10::SymInt;
using c10::SymIntArrayRef;
using OptionalTensor = std::optional<Tensor>;
using Tensors2 = std::tuple<Tensor, Tensor>;

/// True if torch has a kernel of its own. For Meta, hasComputedKernelForDispatchKey is always true.
static bool hasMetaKernel(const c10::OperatorHandle &op) {
  for (DispatchKey key : {DispatchKey::Meta, DispatchKey::CompositeExplicitAutograd,
                          DispatchKey::CompositeExplicitAutogradNonFunctional,
                          DispatchKey::CompositeImplicitAutograd})
    if (op.hasKernelForDispatchKey(key))
      return true;
  return false;
}

bool MetaKernels::isMissing(const char *name) {
  std::string text = name;
  size_t dot = text.find('.');
  auto op = c10::Dispatcher::singleton().findSchema(
      {"aten::" + text.substr(0, dot), dot == std::string::npos ? "" : text.substr(dot + 1)});
  return op && !hasMetaKernel(*op);
}

/// The result that TensorIterator would allocate for an elementwise operator on these operands.
static Tensor makeElementwise(std::initializer_list<Tensor> operands, at::ScalarType dtype) {
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).check_all_same_device(false).add_owned_output(Tensor());
  for (const Tensor &operand : operands)
    config.add_owned_const_input(operand);
  config.declare_static_dtype_and_device(dtype, at::kMeta);
  return config.build().output(0);
}

Tensor fsdp::frontend::makeSuggested(const Tensor &like) {
  return at::empty(like.sizes(), like.options().memory_format(like.suggest_memory_format()));
}

MetaKernels::MetaKernels(Target target) {
  if (target == Target::Cuda) {
    addCudaNormalization(); // before the CPU's kernels, which are only added where one is missing
    addCudaBags();
    addCudaScaledProduct();
  }
  addElementwise(target);
  addRandom();
  addSpecialized();
  addReductions();
  addLosses(target);
  addNormalization(target);
  addConvolution(target);
  addPooling();
  addAttention();
  addCudaAttention();
  addGroupedProduct();
  addRecurrent();
  addWeightNorm();
  if (target == Target::Cpu)
    addPixelShuffles();
}

void MetaKernels::addElementwise(Target target) {
  auto unary = +[](const Tensor &x) { return makeElementwise({x}, x.scalar_type()); };
  // Composites whose out-variants do not support meta.
  replace(
      "abs",
      +[](const Tensor &x) { return makeElementwise({x}, c10::toRealValueType(x.scalar_type())); });
  replace(
      "bernoulli", +[](const Tensor &x, std::optional<at::Generator>) {
        return at::empty_like(x, at::MemoryFormat::Contiguous);
      });
  replace(
      "nan_to_num", +[](const Tensor &x, std::optional<double>, std::optional<double>,
                        std::optional<double>) { return makeElementwise({x}, x.scalar_type()); });
  replace("abs_", +[](Tensor &x) -> Tensor & { return x; });
  replace(
      "nan_to_num_",
      +[](Tensor &x, std::optional<double>, std::optional<double>,
          std::optional<double>) -> Tensor & { return x; });
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
  add(
      "glu_backward", +[](const Tensor &, const Tensor &x, int64_t) {
        return at::empty_like(x, at::MemoryFormat::Contiguous);
      });
  // A composite on devices without a kernel of their own, such as meta.
  replace(
      "mish_backward", +[](const Tensor &grad, const Tensor &x) {
        return makeElementwise({grad, x}, x.scalar_type());
      });
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
  if (target == Target::Cpu)
    add(
        "native_dropout", +[](const Tensor &x, double, std::optional<bool>) {
          return Tensors2(makeElementwise({x}, x.scalar_type()), makeElementwise({x}, at::kBool));
        });
  else
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
  if (target == Target::Cpu)
    add("roll", +[](const Tensor &x, SymIntArrayRef, at::IntArrayRef) { return makeSuggested(x); });
  else
    add(
        "roll", +[](const Tensor &x, SymIntArrayRef, at::IntArrayRef) {
          return at::empty_like(x, at::MemoryFormat::Preserve);
        });
  // A composite that selects by the mask; only the sizes matter.
  replace(
      "masked_scatter_backward", +[](const Tensor &grad, const Tensor &, SymIntArrayRef sizes) {
        return at::empty(C10_AS_INTARRAYREF_SLOW(sizes), grad.options());
      });
}

void MetaKernels::addRandom() {
  using Generator = std::optional<at::Generator>;
  auto drawn = +[](const Tensor &x, Generator) { return at::empty_like(x); };
  add("poisson", drawn);
  add("_standard_gamma", drawn);
  add("_sample_dirichlet", drawn);
  add("_standard_gamma_grad", +[](const Tensor &x, const Tensor &) { return at::empty_like(x); });
  add(
      "_dirichlet_grad",
      +[](const Tensor &x, const Tensor &, const Tensor &) { return at::empty_like(x); });
  add(
      "multinomial", +[](const Tensor &x, SymInt count, bool, Generator) {
        std::vector<int64_t> sizes = x.sizes().vec();
        sizes.back() = count.expect_int();
        return at::empty(sizes, x.options().dtype(at::kLong));
      });
  replace( // a composite of kernels that meta does not have
      "randperm", +[](SymInt count, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                      std::optional<at::Device>, std::optional<bool>) {
        return at::empty({count.expect_int()},
                         at::TensorOptions().dtype(dtype.value_or(at::kLong)).device(at::kMeta));
      });
}

/// Of steps that are specialized to their batches (tools/python/fsdpc/specialization.py).
void MetaKernels::addSpecialized() {
  add(
      "_functional_assert_async.msg",
      +[](const Tensor &, c10::string_view, const Tensor &after) { return at::empty_like(after); });
  add(
      "repeat_interleave.Tensor", +[](const Tensor &repeats, std::optional<SymInt> size) {
        TORCH_CHECK_NOT_IMPLEMENTED(size, "the number of its results is not given");
        return at::empty({size->expect_int()}, repeats.options());
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
  replace( // a composite that reads its operands on a CPU
      "cumprod_backward", +[](const Tensor &gradient, const Tensor &, int64_t, const Tensor &) {
        return at::empty_like(gradient);
      });
  add(
      "histc", +[](const Tensor &x, int64_t bins, const at::Scalar &, const at::Scalar &) {
        return at::empty({bins}, x.options());
      });
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

void MetaKernels::addLosses(Target target) {
  auto smoothBackward = +[](const Tensor &, const Tensor &x, const Tensor &, int64_t, double) {
    return at::empty_like(x, at::MemoryFormat::Contiguous);
  };
  replace("huber_loss_backward", smoothBackward);
  replace("smooth_l1_loss_backward", smoothBackward);
  add(
      "mse_loss_backward", +[](const Tensor &, const Tensor &x, const Tensor &y, int64_t) {
        return at::empty(at::infer_size(x.sizes(), y.sizes()), x.options());
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
  if (target == Target::Cpu)
    add(
        "log_sigmoid_forward", +[](const Tensor &x) {
          auto make = [&] { return at::empty_like(x, at::MemoryFormat::Contiguous); };
          return Tensors2(make(), make());
        });
  else // without `buffer`
    add(
        "log_sigmoid_forward",
        +[](const Tensor &x) { return Tensors2(at::empty_like(x), at::empty({0}, x.options())); });
  add(
      "log_sigmoid_backward",
      +[](const Tensor &grad, const Tensor &, const Tensor &) { return at::empty_like(grad); });
}
