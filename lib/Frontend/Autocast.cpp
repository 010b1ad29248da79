//===- Autocast.cpp - The casts of torch.autocast on meta tensors ---------===//
//
// Policies and their operators are torch's (aten/src/ATen/autocast_mode.cpp). They are registered
// at the autocast key of a device that no captured tensor is on.
//
//===----------------------------------------------------------------------===//

#include "Autocast.h"

#include "Graph.h"
#include "fsdp/Frontend/Capture.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

using namespace fsdp::frontend;
using c10::DispatchKey;
using c10::IValue;

static constexpr DispatchKey key = DispatchKey::AutocastIPU;
static Autocast *active = nullptr;

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

#define FSDP_NAME_OF_2(op, overload, ...) #op "." #overload
#define FSDP_NAME_OF_1(op, ...) #op
#define FSDP_PICK(first, second, name, ...) name
#define FSDP_NAME(...) FSDP_PICK(__VA_ARGS__, FSDP_NAME_OF_2, FSDP_NAME_OF_1)(__VA_ARGS__),

static const char *const cudaLower[] = {AT_FORALL_LOWER_PRECISION_FP(FSDP_NAME)};
static const char *const cudaFp32[] = {AT_FORALL_FP32(FSDP_NAME) "norm.Scalar",
                                       "norm.ScalarOpt_dim"};
static const char *const cudaFp32Dtype[] = {AT_FORALL_FP32_SET_OPT_DTYPE(FSDP_NAME)};
static const char *const cudaPromote[] = {AT_FORALL_PROMOTE(FSDP_NAME)};

// No header of torch lists these operators. All others with a kernel at the CPU's autocast key run
// in fp32.
static const char *const cpuLower[] = {"conv1d",
                                       "conv1d.padding",
                                       "conv2d",
                                       "conv2d.padding",
                                       "conv3d",
                                       "conv3d.padding",
                                       "bmm",
                                       "mm",
                                       "linalg_vecdot",
                                       "baddbmm",
                                       "addmm",
                                       "_addmm_activation",
                                       "addbmm",
                                       "linear",
                                       "matmul",
                                       "_convolution.deprecated",
                                       "conv_tbc",
                                       "mkldnn_rnn_layer",
                                       "prelu",
                                       "conv_transpose1d",
                                       "conv_transpose2d.input",
                                       "conv_transpose3d.input",
                                       "scaled_dot_product_attention",
                                       "_native_multi_head_attention"};
static const char *const cpuPromote[] = {"stack", "cat", "index_copy", "index_copy.dimname"};

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// True for tensors that autocast casts: torch leaves double unchanged.
static bool isCast(const at::Tensor &tensor) {
  return tensor.defined() && tensor.is_floating_point() && tensor.scalar_type() != at::kDouble;
}

static IValue castAll(const IValue &value, at::ScalarType dtype) {
  if (value.isTensor())
    return isCast(value.toTensor()) ? active->cast(value.toTensor(), dtype) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor &tensor : value.toTensorList())
      list.push_back(isCast(tensor) ? active->cast(tensor, dtype) : tensor);
    return list;
  }
  return value;
}

namespace {
enum class Policy { Lower, Fp32, Fp32Dtype, Promote };
} // namespace

/// fp32 if one operand has it, else the lower precision.
static at::ScalarType getWidest(const std::vector<IValue> &arguments) {
  at::ScalarType widest = active->getDtype();
  for (const IValue &argument : arguments)
    forEachTensor(argument, [&](const at::Tensor &tensor) {
      if (isCast(tensor) && tensor.scalar_type() == at::kFloat)
        widest = at::kFloat;
    });
  return widest;
}

template <Policy policy>
static void castKernel(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  c10::impl::ExcludeDispatchKeyGuard withoutAutocast(key);
  const std::vector<c10::Argument> &formals = op.schema().arguments();
  size_t base = stack->size() - formals.size();
  if (policy == Policy::Fp32Dtype) {
    const IValue &first = (*stack)[base];
    for (size_t i = 0; i < formals.size(); ++i)
      if (formals[i].name() == "dtype" && (*stack)[base + i].isNone() && first.isTensor() &&
          isCast(first.toTensor()))
        (*stack)[base + i] = static_cast<int64_t>(at::kFloat);
  } else {
    at::ScalarType dtype = policy == Policy::Fp32 ? at::kFloat
                           : policy == Policy::Lower
                               ? active->getDtype()
                               : getWidest({stack->begin() + base, stack->end()});
    for (size_t i = 0; i < formals.size(); ++i)
      (*stack)[base + i] = castAll((*stack)[base + i], dtype);
  }
  op.callBoxed(stack);
}

/// The CPU's kernel calls bmm, which autocast reaches inside of it; when the step runs, no autocast
/// is active.
static void refuseTrilinear(const c10::OperatorHandle &, torch::jit::Stack *) {
  throw CaptureError("bilinear in an autocast region is not supported: disable autocast around it");
}

template <Policy policy, typename Names>
static void addKernels(torch::Library &library, const Names &names) {
  for (const auto &name : names)
    library.impl(std::string(name).c_str(),
                 torch::CppFunction::makeFromBoxedFunction<&castKernel<policy>>());
}

/// The operators that torch casts to fp32 on a CPU.
static std::vector<std::string> listCpuFp32() {
  std::vector<std::string> names;
  for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames()) {
    auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || name.name.rfind("aten::", 0) != 0 ||
        !op->hasKernelForDispatchKey(DispatchKey::AutocastCPU))
      continue;
    std::string text = name.name.substr(6);
    if (!name.overload_name.empty())
      text += "." + name.overload_name;
    if (!llvm::is_contained(cpuLower, text) && !llvm::is_contained(cpuPromote, text))
      names.push_back(std::move(text));
  }
  return names;
}

Autocast::Autocast(Target target)
    : isForCpu(target == Target::Cpu),
      kernels(torch::Library::IMPL, "aten", key, __FILE__, __LINE__),
      fallback(torch::Library::IMPL, "_", key, __FILE__, __LINE__),
      dtype(isForCpu ? at::kBFloat16 : at::kHalf) {
  TORCH_CHECK(!active, "two captures at a time");
  active = this;
  fallback.fallback(torch::CppFunction::makeFallthrough());
  if (isForCpu) {
    addKernels<Policy::Lower>(kernels, cpuLower);
    addKernels<Policy::Fp32>(kernels, listCpuFp32());
    addKernels<Policy::Promote>(kernels, cpuPromote);
    kernels.impl("_trilinear", torch::CppFunction::makeFromBoxedFunction<&refuseTrilinear>());
  } else {
    addKernels<Policy::Lower>(kernels, cudaLower);
    addKernels<Policy::Fp32>(kernels, cudaFp32);
    addKernels<Policy::Fp32Dtype>(kernels, cudaFp32Dtype);
    addKernels<Policy::Promote>(kernels, cudaPromote);
  }
}

Autocast::~Autocast() { active = nullptr; }

at::Tensor Autocast::cast(const at::Tensor &tensor, at::ScalarType to) {
  if (tensor.scalar_type() == to)
    return tensor;
  bool isKept = to == dtype && tensor.scalar_type() == at::kFloat && tensor.requires_grad() &&
                tensor.is_leaf() && !tensor.is_view();
  if (!isKept)
    return tensor.to(to);
  auto [entry, isNew] = casts.try_emplace(tensor.unsafeGetTensorImpl());
  if (isNew)
    entry->second = {tensor, tensor.to(to)};
  return entry->second.second;
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

static void enable(bool enabled) {
  // Outside of regions the key is excluded.
  c10::impl::tls_set_dispatch_key_included(key, enabled);
  c10::impl::tls_set_dispatch_key_excluded(key, !enabled);
}

Autocast::Region::Region(Autocast &autocast, const std::string &device,
                         std::optional<at::ScalarType> dtype, bool enabled) {
  if (device != (autocast.isForCpu ? "cpu" : "cuda"))
    return;
  this->autocast = &autocast;
  wasEnabled = c10::impl::tls_is_dispatch_key_included(key);
  previous = autocast.dtype;
  if (dtype)
    autocast.dtype = *dtype;
  ++autocast.depth;
  enable(enabled);
}

Autocast::Region::~Region() {
  if (!autocast)
    return;
  enable(wasEnabled);
  autocast->dtype = previous;
  if (--autocast->depth == 0)
    autocast->casts.clear();
}
