//===- ConvolutionMetaKernels.cpp - Shapes of convolutions ----------------===//
//
// The layout of results depends on the library that computes them. These kernels ask torch which
// library it would use.
//
//===----------------------------------------------------------------------===//

#include "MetaKernels.h"
#include "OutsideOfCapture.h"

#include <ATen/native/ConvUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>

using namespace fsdp::frontend;
using at::Tensor;
using c10::SymInt;
using c10::SymIntArrayRef;
using OptionalTensor = std::optional<Tensor>;
using Tensors3 = std::tuple<Tensor, Tensor, Tensor>;

namespace {
/// All settings that affect the choice, except the operands.
struct Settings {
  SymIntArrayRef stride, padding, dilation;
  bool isTransposed;
  SymIntArrayRef outputPadding;
  SymInt groups;
};

/// The layout of results.
struct Layout {
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
  bool isDnnl = false;
};
} // namespace

/// One-dimensional convolutions run as two-dimensional ones whose first dimension is 1.
static Tensor addDimension(const Tensor &tensor) {
  return tensor.dim() == 3 ? tensor.unsqueeze(2) : tensor;
}

/// A CPU tensor with the same sizes and strides, whose data must not be read. An input with one
/// spatial dimension is made contiguous first.
static Tensor makeStandIn(const Tensor &like, bool isInput) {
  static char nothing;
  auto options = like.options().device(at::kCPU);
  if (isInput && like.dim() == 3 && !like.is_contiguous())
    return at::from_blob(&nothing, like.sizes(), options);
  return at::from_blob(&nothing, like.sizes(), like.strides(), options);
}

static Layout findCpuLayout(const Tensor &x, const Tensor &weight, const Settings &s) {
  OutsideOfCapture outside;
  Tensor input = makeStandIn(x, true), kernel = makeStandIn(weight, false);
  auto backend = at::native::select_conv_backend(input, kernel, /*bias_opt=*/std::nullopt, s.stride,
                                                 s.padding, s.dilation, s.isTransposed,
                                                 s.outputPadding, s.groups, std::nullopt);
  return {at::native::_determine_backend_memory_format(addDimension(input), addDimension(kernel),
                                                       backend),
          backend == at::native::ConvBackend::Mkldnn ||
              backend == at::native::ConvBackend::MkldnnTranspose};
}

/// cuDNN's layout: channels last if one operand is.
static Layout findCudaLayout(const Tensor &x, const Tensor &weight, const Settings &) {
  OutsideOfCapture outside;
  for (const Tensor &operand : {makeStandIn(x, true), makeStandIn(weight, false)}) {
    auto format = addDimension(operand).suggest_memory_format();
    if (format != at::MemoryFormat::Contiguous && x.scalar_type() != at::kDouble)
      return {format, true};
  }
  return {};
}

static Tensor makeLaidOut(std::vector<int64_t> sizes, const Tensor &like, Layout layout) {
  bool isLine = sizes.size() == 3;
  if (isLine)
    sizes.insert(sizes.begin() + 2, 1);
  Tensor made = at::empty(sizes, like.options(), layout.format);
  return isLine ? made.squeeze(2) : made;
}

static std::vector<int64_t> getSizes(const Tensor &x, const Tensor &weight, const Settings &s) {
  auto at = [](SymIntArrayRef list, int64_t i) {
    return list[list.size() == 1 ? 0 : i].expect_int();
  };
  std::vector<int64_t> sizes{x.size(0), s.isTransposed ? weight.size(1) * s.groups.expect_int()
                                                       : weight.size(0)};
  for (int64_t i = 0; i < x.dim() - 2; ++i) {
    int64_t kernel = at(s.dilation, i) * (weight.size(i + 2) - 1) + 1, size = x.size(i + 2);
    sizes.push_back(s.isTransposed ? (size - 1) * at(s.stride, i) - 2 * at(s.padding, i) + kernel +
                                         at(s.outputPadding, i)
                                   : (size + 2 * at(s.padding, i) - kernel) / at(s.stride, i) + 1);
  }
  return sizes;
}

using FindLayout = Layout (*)(const Tensor &, const Tensor &, const Settings &);

template <FindLayout findLayout>
static Tensor convolution(const Tensor &x, const Tensor &weight, const OptionalTensor &,
                          SymIntArrayRef stride, SymIntArrayRef padding, SymIntArrayRef dilation,
                          bool transposed, SymIntArrayRef outputPadding, SymInt groups) {
  Settings settings{stride, padding, dilation, transposed, outputPadding, groups};
  return makeLaidOut(getSizes(x, weight, settings), x, findLayout(x, weight, settings));
}

template <FindLayout findLayout>
static Tensor deprecatedConvolution(const Tensor &x, const Tensor &weight,
                                    const OptionalTensor &bias, SymIntArrayRef stride,
                                    SymIntArrayRef padding, SymIntArrayRef dilation,
                                    bool transposed, SymIntArrayRef outputPadding, SymInt groups,
                                    bool, bool, bool, bool) {
  return convolution<findLayout>(x, weight, bias, stride, padding, dilation, transposed,
                                 outputPadding, groups);
}

template <FindLayout findLayout>
static Tensors3 backward(const Tensor &grad, const Tensor &x, const Tensor &weight,
                         at::OptionalSymIntArrayRef, SymIntArrayRef stride, SymIntArrayRef padding,
                         SymIntArrayRef dilation, bool transposed, SymIntArrayRef outputPadding,
                         SymInt groups, std::array<bool, 3> mask) {
  Settings settings{stride, padding, dilation, transposed, outputPadding, groups};
  Layout layout = findLayout(x, weight, settings);
  Tensor ofInput, ofWeight, ofBias;
  if (mask[0])
    ofInput = makeLaidOut(x.sizes().vec(), x, layout);
  if (mask[1] && layout.isDnnl) {
    ofWeight = makeLaidOut(weight.sizes().vec(), weight, layout);
  } else if (mask[1]) {
    // torch's own kernels keep a weight that is contiguous in both formats, such as a 1x1 kernel.
    ofWeight = at::empty_like(addDimension(weight).contiguous(layout.format));
    if (weight.dim() == 3)
      ofWeight = ofWeight.squeeze(2);
  }
  if (mask[2])
    ofBias = at::empty({grad.size(1)}, grad.options());
  return {ofInput, ofWeight, ofBias};
}

void MetaKernels::addConvolution(Target target) {
  if (target == Target::Cpu) {
    replace("convolution", &convolution<findCpuLayout>);
    replace("_convolution", &deprecatedConvolution<findCpuLayout>);
    replace("convolution_backward", &backward<findCpuLayout>);
  } else {
    replace("convolution", &convolution<findCudaLayout>);
    replace("_convolution", &deprecatedConvolution<findCudaLayout>);
    replace("convolution_backward", &backward<findCudaLayout>);
  }
}
