//===- GradientDivision.h - Divisors of gradient reductions -----*- C++ -*-===//
//
// Gradients are summed over shards and replicas and divided by a factor: by default the number of
// ranks. FSDP2 decides where the division happens and which reduction the collectives use (torch
// 2.11, _fsdp_collectives.py, _get_gradient_divide_factors).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_GRADIENTDIVISION_H
#define FSDP_ANALYSIS_GRADIENTDIVISION_H

#include "fsdp/Analysis/Step.h"

#include <optional>
#include <string>

namespace fsdp {

/// How a collective reduces. Each rank divides its input by `predivide` and its result by
/// `postdivide`. With `premul_sum` the collective itself multiplies by the reciprocal of
/// `predivide`.
struct Reduction {
  ReduceOp op = ReduceOp::Average;
  double predivide = 1, postdivide = 1;

  bool operator==(const Reduction &) const = default;
};

/// "sum predivide 2 postdivide 2".
std::string describe(const Reduction &reduction);

/// The reduction of a start of a reduce-scatter or of an all-reduce.
template <typename StartOp> Reduction getReduction(StartOp start) {
  auto get = [](std::optional<llvm::APFloat> divisor) {
    return divisor ? divisor->convertToDouble() : 1;
  };
  return {start.getReduceOp(), get(start.getPredivide()), get(start.getPostdivide())};
}

struct GradientDivision {
  Reduction scatter; // over the shards
  Reduction across;  // then over the replicas
  double alone = 1;  // divides gradients when they are packed: on one rank, or before their sum
};

/// How gradients of `dtype` of `group` are reduced over `shards` and `replicas`.
GradientDivision getGradientDivision(GroupOp group, mlir::Type dtype, int64_t shards,
                                     int64_t replicas);

/// True if a reduce-scatter or a pack, or an operation on its result, writes to the packed
/// gradients: they are divided, summed or reduced in place.
bool overwritesPacked(mlir::Operation *op);

/// Explains, in words, why FSDP2's `gradient_divide_factor` or `all_reduce_hook` cannot be had for
/// the group; nullopt if it can.
std::optional<std::string> checkGradientDivision(Step &step, GroupOp group);

} // namespace fsdp

#endif // FSDP_ANALYSIS_GRADIENTDIVISION_H
