//===- KernelReference.h - The kernels' results, on the host ----*- C++ -*-===//

#ifndef FSDP_TEST_RUNTIME_CUDA_KERNELREFERENCE_H
#define FSDP_TEST_RUNTIME_CUDA_KERNELREFERENCE_H

#include "cuda/kernels/Kernels.h"

#include <vector>

namespace fsdp::rt {

struct ReferenceShard {
  std::vector<float> parameters, state[FSDP_MAX_STATES];
};

OptimizerScalars referenceScalars(const fsdp_optimizer &optimizer, const OptimizerInputs &inputs);
/// Correctly rounded square roots, as the kernels'.
void roundedRoots(std::vector<float> &values);
/// One update; `takeRoots` replaces values by their square roots.
void referenceUpdate(uint32_t kind, const OptimizerScalars &scalars, float clipFactor,
                     const std::vector<float> &gradients, ReferenceShard &shard,
                     void (*takeRoots)(std::vector<float> &) = roundedRoots);
double referencePartialNorm(fsdp_norm_type type, const std::vector<float> &gradients);
float referenceClipFactor(fsdp_norm_type type, double total, float maxNorm);
float referenceAverage(float average, float parameter, float weight, int64_t step);
float referenceAccumulate(float to, float toScale, float from, float fromScale);

/// `value` as a number of `dtype` (fp32, bf16, fp16), to the nearest.
float rounded(float value, fsdp_dtype dtype);
/// Units in the last place between two floats; 0 for two NaNs.
int64_t ulpDistance(float a, float b);

} // namespace fsdp::rt

#endif // FSDP_TEST_RUNTIME_CUDA_KERNELREFERENCE_H
