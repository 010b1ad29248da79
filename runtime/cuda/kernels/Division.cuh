//===- Division.cuh - Rounded quotients and roots in loops -----*- CUDA -*-===//
//
// The results of __fdiv_rn and __fsqrt_rn, for all arguments. CUDA's functions call a subroutine
// for zeros, which costs more than the rest of an update, and zeros are common: gradients and state
// of parameters that a step does not use are zeros. The functions here call no subroutine.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CUDA_KERNELS_DIVISION_CUH
#define FSDP_RUNTIME_CUDA_KERNELS_DIVISION_CUH

#include <cuda_runtime.h>

namespace fsdp::rt {

/// Quotients of square roots (0, or 2^-75 to 2^64; infinite; NaN) and one divisor, 0 or 2^-27 to 1.
///
/// Markstein, Computation of elementary functions on the IBM RISC System/6000 (1990): with the
/// rounded reciprocal of the divisor, one correction by the remainder makes a quotient that is
/// within 1 ulp the rounded one. A first correction brings the quotient within 1 ulp. No remainder
/// underflows in these ranges.
struct RootDivisor {
  float divisor, reciprocal, limit; // roots below the limit are finite and have a quotient

  static __device__ __forceinline__ RootDivisor of(float divisor) {
    return {divisor, __frcp_rn(divisor), divisor > 0 ? __int_as_float(0x7f800000) : 0.f};
  }
  __device__ __forceinline__ float quotientOf(float root) const {
    const float first = __fmul_rn(root, reciprocal);
    float quotient = first;
#pragma unroll
    for (int i = 0; i < 2; ++i)
      quotient = __fmaf_rn(__fmaf_rn(-divisor, quotient, root), reciprocal, quotient);
    return root < limit ? quotient : first;
  }
};

/// The Math of OptimizerFormulas.h.
struct DeviceMath {
  using RootDivisor = rt::RootDivisor;

  static __device__ __forceinline__ float rootOf(float square) {
    const bool isZero = square == 0;
    const float root = __fsqrt_rn(isZero ? 1.f : square);
    return isZero ? square : root;
  }
  static __device__ __forceinline__ float quotientOf(float numerator, float denominator) {
    const bool isZero = numerator == 0 && denominator > 0;
    const float quotient = __fdiv_rn(isZero ? denominator : numerator, denominator);
    return isZero ? numerator : quotient;
  }
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_KERNELS_DIVISION_CUH
