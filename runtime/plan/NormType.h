//===- NormType.h - Parts of a norm of gradients -------------- -*- C++ -*-===//
//
// A norm is computed in parts, over any cut of the gradients: the sum of squares for norm 2, the
// sum of absolute values for norm 1, the largest absolute value for norm inf, in double.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_NORMTYPE_H
#define FSDP_RUNTIME_NORMTYPE_H

#include "fsdp/Plan/Abi.h"

#include <cmath>

namespace fsdp::rt {

/// Joins the parts of two sets of gradients. A NaN stays a NaN.
inline double joinNormParts(fsdp_norm_type type, double a, double b) {
  if (type != FSDP_NORM_INF)
    return a + b;
  return a > b || std::isnan(a) ? a : b;
}

/// The norm whose only part is `part`.
inline double normOfPart(fsdp_norm_type type, double part) {
  return type == FSDP_NORM_2 ? std::sqrt(part) : part;
}

/// The part of one element.
inline double normPartOf(fsdp_norm_type type, double element) {
  return type == FSDP_NORM_2 ? element * element : std::abs(element);
}

/// As torch.nn.utils.clip_grad_norm_ takes it: "1", "2" or "inf"; null for another value.
inline const char *normTypeName(uint32_t type) {
  constexpr const char *names[] = {"1", "2", "inf"};
  return type >= FSDP_NORM_1 && type <= FSDP_NORM_INF ? names[type - FSDP_NORM_1] : nullptr;
}

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_NORMTYPE_H
