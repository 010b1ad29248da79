//===- Saturate.h - Products and sums without overflow -------- -*- C++ -*-===//
//
// Sizes, strides and counts of a plan may be any numbers until validatePlan has compared the
// resulting ranges with the arena. A result that overflows becomes the largest number, which
// exceeds every arena.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_SATURATE_H
#define FSDP_RUNTIME_SATURATE_H

#include <cstdint>
#include <limits>

namespace fsdp::rt {

inline int64_t multiply(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

inline int64_t add(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_SATURATE_H
