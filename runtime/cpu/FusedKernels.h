//===- FusedKernels.h - fp32 loops of the optimizers --------------*- C++ -*-===//
//
// Each loop has two versions, for AVX2 with FMA and portable. Both give the same bits, since every
// fused multiply-add is written explicitly.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_FUSEDKERNELS_H
#define FSDP_RUNTIME_FUSEDKERNELS_H

#include <cstddef>

namespace fsdp::rt {

struct SgdScalars {
  float negativeLearningRate;
  float weightDecay; // 0: none
  float momentum;
  bool hasMomentum;
  bool firstStep; // the momentum buffer is the gradient
  bool nesterov;
  float gradientWeight; // in the momentum buffer: 1 - dampening
};

struct AdamScalars {
  float decay;       // factor of the parameters (decoupled weight decay); 1: none
  float weightDecay; // added to the gradient times the parameter; 0: none
  float lerpWeight;  // 1 - beta1
  float beta2;
  float oneMinusBeta2;
  float sqrtCorrection2;
  float eps;
  float negativeStepSize;
};

/// Loops over `count` elements. Loops that read gradients return the sum of their squares, and use
/// the gradients times `clipFactor`.
struct FusedKernels {
  double (*sgd)(float *parameters, const float *gradients, float *momentum, size_t count,
                const SgdScalars &scalars, float clipFactor);
  /// Updates both moments and copies the second one to `root`, for the square root.
  double (*adamMoments)(const float *parameters, const float *gradients, float *moment1,
                        float *moment2, float *root, size_t count, const AdamScalars &scalars,
                        float clipFactor);
  void (*adamParameters)(float *parameters, const float *moment1, const float *root, size_t count,
                         const AdamScalars &scalars);
  /// The same sum that the updates return, bit for bit.
  double (*squareSum)(const float *gradients, size_t count);
  double (*absoluteSum)(const float *gradients, size_t count);
  /// The largest absolute value, at least 0; NaN if an element is NaN.
  double (*largest)(const float *gradients, size_t count);
};

/// The best set for this machine.
const FusedKernels &fusedKernels();
/// The portable set, for tests.
const FusedKernels &portableFusedKernels();

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_FUSEDKERNELS_H
