//===- Kernels.h - The backend's own kernels ---------------------*- C++ -*-===//
//
// Launches of the kernels on flat shards and gradients: the optimizers' updates with the cast to
// the dtype for gathers, the weights' moving average, the gradients' norm and the clip factor, and
// accumulation. All pointers but those in host structs are device memory that the caller owns. A
// launch enqueues on `stream`, allocates nothing, waits for nothing, and can be captured: values
// that change from step to step are read from device memory. Any alignment of the element works;
// pointers at multiples of 16 bytes are fast. Errors: cudaErrorInvalidValue for arguments that
// checkArguments refuses, else the launch's error. Nothing is launched for 0 elements. Thread-safe.
//
// Every operation rounds as written in the formulas (no contraction, no approximate division or
// square root), so results are those of the CPU's loops with a correctly rounded square root.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CUDA_KERNELS_KERNELS_H
#define FSDP_RUNTIME_CUDA_KERNELS_KERNELS_H

#include "executor/OptimizerScalars.h"
#include "fsdp/Plan/Abi.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <limits>

namespace fsdp::rt {

/// One update of `elements` elements of a shard, in place, computed in fp32. Numbers of bf16 and
/// fp16 are rounded once, where they are stored, as torch.optim's fused=True does.
struct OptimizerUpdateArguments {
  uint32_t kind; // fsdp_optimizer_kind
  int64_t elements;
  void *parameters;
  const void *gradients;
  fsdp_dtype gradientDtype; // FSDP_F32, FSDP_BF16 or FSDP_F16
  /// The optimizer's states as in Optimizers.h; those that its options leave out are null. The
  /// first update must find zeros, but in SGD's momentum_buffer and adagrad's sum anything.
  void *state[FSDP_MAX_STATES];
  /// Receives the new parameters, rounded to `gatheredDtype` (FSDP_F32, FSDP_BF16, FSDP_F16); null
  /// if the parameters themselves are gathered. None of the buffers may overlap.
  void *gathered;
  fsdp_dtype gatheredDtype;
  const OptimizerScalars *scalars; // of the step
  const float *clipFactor;         // multiplies the gradients, in fp32; null: 1
  float sign = 1;                  // likewise; -1 maximizes
  /// Elements of the gradients are clipped to [-clipValue, clipValue], a NaN is not. A number of
  /// the parameters' dtype.
  float clipValue = std::numeric_limits<float>::infinity();
  /// Dtype of the parameters. With FSDP_BF16 or FSDP_F16, gradients have the same dtype, and
  /// `gathered` is null.
  fsdp_dtype dtype = FSDP_F32;
  /// Dtype of each state: `dtype`, FSDP_F32 or FSDP_BF16. If it differs from `dtype`, gradients of
  /// bf16 and fp16 are clipped as torch.nn.utils clips them: by a factor of their dtype, and
  /// rounded.
  fsdp_dtype stateDtype[FSDP_MAX_STATES] = {dtype, dtype, dtype};
  /// Of ClipFactorArguments, of a step with a loss scale: multiplies the gradients before clipping,
  /// rounded to the parameters' dtype, and a clip factor of NaN leaves the update out; `gathered`
  /// is then the parameters' copy. Null: 1, and nothing is left out.
  const float *inverseScale = nullptr;
};

/// The moving average of the weights after an update: `parameters` after the first one, else
/// average + weight * (parameters - average) as Tensor.lerp computes it, in fp32, and rounded to
/// `averageDtype`. fp32, bf16 and fp16 each. The buffers may not overlap.
struct AverageArguments {
  void *average;
  fsdp_dtype averageDtype;
  const void *parameters;
  fsdp_dtype dtype;
  const OptimizerScalars *scalars; // of the step
  int64_t elements;
  /// Of a step with a loss scale: a NaN leaves the average as it is. Null: nothing does.
  const float *clipFactor = nullptr;
};

/// Reduces `elements` gradients to partialNormBlocks(elements) parts of their norm
/// (plan/NormType.h), in double and in an order that depends on `elements` and the alignment only.
/// A square of a float is exact in double; a sum's relative error is at most elements * 2^-53, in
/// practice near 1e-15. A NaN makes its part a NaN.
struct PartialNormArguments {
  const void *gradients;
  fsdp_dtype dtype; // FSDP_F32, FSDP_BF16 or FSDP_F16
  int64_t elements;
  double *partials;
  fsdp_norm_type type = FSDP_NORM_2;
};

/// Joins `count` parts of the norm, of all shards of the rank, in a fixed order. Over ranks,
/// `total` is joined by a collective.
struct JoinPartialsArguments {
  const double *partials;
  int64_t count;
  double *total;
  fsdp_norm_type type = FSDP_NORM_2;
};

/// norm = total, or of norm 2 its square root, and clipFactor = min(1, maxNorm / (norm + 1e-6)) as
/// torch.nn.utils' clip_grad_norm_ computes it in fp32, as a reciprocal times maxNorm. A NaN stays
/// a NaN. torch's norm is the norm of fp32 norms of tensors and differs by their rounding. With
/// `lossScale` the norm is multiplied by *inverseScale = 1 / *lossScale, and the factor is NaN for
/// any total that is not finite; else 1 with a maxNorm of 0.
struct ClipFactorArguments {
  const double *total;
  float maxNorm; // > 0; with lossScale also 0
  float *clipFactor;
  float *norm; // null: not wanted
  fsdp_norm_type type = FSDP_NORM_2;
  const float *lossScale = nullptr;
  float *inverseScale = nullptr; // not null if lossScale is not
};

/// to[i] = to[i] * toScale + from[i] * fromScale in fp32, rounded to `toDtype`; exact sums (one
/// rounding) where the scales are 1. With toScale 0, `to` is not read. fp32, bf16 and fp16 each.
/// `to` and `from` may be the same memory, of one dtype; else they may not overlap.
struct AccumulateArguments {
  void *to;
  fsdp_dtype toDtype;
  float toScale;
  const void *from;
  fsdp_dtype fromDtype;
  float fromScale;
  int64_t elements;
};

// KernelArguments.cpp, on any machine.

/// Partial sums that PartialNormArguments writes: 1 to 1024, 0 for 0 elements.
int64_t partialNormBlocks(int64_t elements);

/// Threads of a block, of all kernels.
constexpr int kKernelThreads = 256;
/// Number of blocks of an elementwise kernel whose threads take `width` elements at a time: enough
/// for all elements, but at most 32 per multiprocessor; beyond that, threads loop in strides of the
/// grid.
int64_t elementwiseBlocks(int64_t elements, int width, int multiprocessors);

/// cudaErrorInvalidValue if a pointer is missing, a size negative or a dtype not supported.
cudaError_t checkArguments(const OptimizerUpdateArguments &arguments);
cudaError_t checkArguments(const AverageArguments &arguments);
cudaError_t checkArguments(const PartialNormArguments &arguments);
cudaError_t checkArguments(const JoinPartialsArguments &arguments);
cudaError_t checkArguments(const ClipFactorArguments &arguments);
cudaError_t checkArguments(const AccumulateArguments &arguments);

// The kernels' files.

cudaError_t launchKernel(const OptimizerUpdateArguments &arguments, cudaStream_t stream);
cudaError_t launchKernel(const AverageArguments &arguments, cudaStream_t stream);
cudaError_t launchKernel(const PartialNormArguments &arguments, cudaStream_t stream);
cudaError_t launchKernel(const JoinPartialsArguments &arguments, cudaStream_t stream);
cudaError_t launchKernel(const ClipFactorArguments &arguments, cudaStream_t stream);
cudaError_t launchKernel(const AccumulateArguments &arguments, cudaStream_t stream);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_KERNELS_KERNELS_H
