//===- KernelReference.h - The kernels' results, on the host ----*- C++ -*-===//

#ifndef FSDP_TEST_RUNTIME_CUDA_KERNELREFERENCE_H
#define FSDP_TEST_RUNTIME_CUDA_KERNELREFERENCE_H

#include "cuda/kernels/Kernels.h"

#include <vector>

namespace fsdp::rt {

struct ReferenceShard {
  std::vector<float> parameters, state[FSDP_MAX_STATES];
};

/// Correctly rounded, as the kernels' square roots, or torch's on a CPU.
enum class Roots { Rounded, Torchs };
/// One update by the kernels' formulas; states that the optimizer does not have are empty.
void referenceUpdate(uint32_t kind, const OptimizerScalars &scalars, float clipFactor,
                     const std::vector<float> &gradients, ReferenceShard &shard,
                     Roots roots = Roots::Rounded);
double referencePartialNorm(fsdp_norm_type type, const std::vector<float> &gradients);
float referenceClipFactor(fsdp_norm_type type, double total, float maxNorm, float inverseScale = 1);
/// Clips each element to [-limit, limit]; a NaN stays a NaN.
void clipValues(std::vector<float> &gradients, float limit);
float referenceAverage(float average, float parameter, const AverageScalars &scalars);
float referenceAccumulate(float to, float toScale, float from, float fromScale);

/// `value` as a number of `dtype` (fp32, bf16, fp16), to the nearest.
float rounded(float value, fsdp_dtype dtype);
/// Units in the last place between two floats; 0 for two NaNs.
int64_t ulpDistance(float a, float b);

} // namespace fsdp::rt

#endif // FSDP_TEST_RUNTIME_CUDA_KERNELREFERENCE_H
