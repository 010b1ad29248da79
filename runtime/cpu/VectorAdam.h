//===- VectorAdam.h - Adam in one pass over memory ---------------*- C++ -*-===//
//
// The loops of FusedKernels and the square root between them, in one loop. Torch's square root of a
// vector comes from the library that it was built with. MKL on a processor other than Intel's takes
// the processor's estimate of the reciprocal root and two steps of Newton's method, without fused
// multiply-adds. This loop computes the same, for normal numbers and zero. A trial before the first
// use tells whether it gives torch's bits.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_VECTORADAM_H
#define FSDP_RUNTIME_VECTORADAM_H

#include "cpu/FusedKernels.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fsdp::rt {

/// True if this machine can run vectorAdam() and its square roots are torch's.
bool isVectorAdamExact();

/// Updates `count` elements, a multiple of 16; returns the sum of the squares of the gradients, in
/// the order of FusedKernels, and uses the gradients times `clipFactor`. `spare`: 16 contiguous
/// fp32 elements, for square roots that torch must compute.
double vectorAdam(float *parameters, const float *gradients, float *moment1, float *moment2,
                  int64_t count, const AdamScalars &scalars, float clipFactor, at::Tensor &spare);

/// Replaces `count` values, a multiple of 16, by vectorAdam()'s square roots; values that are
/// neither zero nor positive normal numbers stay unchanged. Expects AVX-512. For tests.
void vectorRoots(float *values, int64_t count);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_VECTORADAM_H
