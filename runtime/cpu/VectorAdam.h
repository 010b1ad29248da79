//===- VectorAdam.h - Adam in one pass over memory ---------------*- C++ -*-===//
//
// The loops of FusedKernels and the square root between them, in one. Torch's square root of many
// numbers is that of the library that it was built with. Where this is MKL on a processor that is
// not Intel's, it is the processor's estimate of the reciprocal root and two steps of Newton's
// method, without fused multiply-adds; that is what is computed here, for normal numbers and zero.
// Whether it gives torch's bits is tried once, before it is used.
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
/// the order of FusedKernels, and goes on with the gradients times `clipFactor`. `spare`: 16
/// contiguous fp32 elements, for square roots that torch has to compute.
double vectorAdam(float *parameters, const float *gradients, float *moment1, float *moment2,
                  int64_t count, const AdamScalars &scalars, float clipFactor, at::Tensor &spare);

/// Its square roots of `count` numbers, a multiple of 16; those that are neither zero nor positive
/// normal numbers are left alone. Expects AVX-512. For tests.
void vectorRoots(float *values, int64_t count);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_VECTORADAM_H
