//===- GemmChoice.h - Which kernel multiplies matrices -----------*- C++ -*-===//
//
// Torch multiplies fp32 matrices with the BLAS library that it was built with. Where BlockedGemm
// gives the same bits in less time, it takes the place of the operator: when an executor is made,
// each distinct product of the plan is run on random data with torch's operator and with
// BlockedGemm, in the orders of addition that BLAS libraries are known for. An order whose result
// differs in any bit is refused; what is left of them is taken if it is faster. So the choice
// depends on the machine and on time, the numbers do not.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_GEMMCHOICE_H
#define FSDP_RUNTIME_GEMMCHOICE_H

#include "executor/BlockedGemm.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace fsdp::rt {

/// The product that a call of `op` computes, if it is one that BlockedGemm can take: mm, bmm, or
/// addmm with both factors 1, of fp32 tensors that are not empty.
struct GemmCall {
  GemmShape shape;
  GemmOperands operands; // c is null
  static std::optional<GemmCall> of(const c10::OperatorHandle &op,
                                    const std::vector<c10::IValue> &arguments);
};

/// Depths of the chains of additions of known BLAS libraries, for products over k.
std::vector<int64_t> knownDepths(int64_t k);

/// One order of additions that was tried for a shape.
struct GemmTrial {
  GemmShape shape;
  int64_t depth;
  bool sameBits;                     // as torch's operator
  double torchMs = 0, blockedMs = 0; // the shortest runs, in time of this thread
};

/// Chooses a kernel for each product, once per shape.
class GemmChooser {
public:
  using Depths = std::function<std::vector<int64_t>(int64_t k)>;

  /// `threads`: of an operator.
  explicit GemmChooser(int threads, Depths depths = knownDepths)
      : threads(threads), depths(std::move(depths)) {}

  /// The kernel for the product `call` of `op` with `arguments`, or none: torch's operator. The
  /// contents of the operands do not matter and do not change. A shape that is new takes a run of
  /// each kernel and its share of 50 ms, which all shapes have together for repetitions.
  std::optional<BlockedGemm> choose(const GemmCall &call, const c10::OperatorHandle &op,
                                    const std::vector<c10::IValue> &arguments);

  /// What was tried, in order.
  const std::vector<GemmTrial> &trials() const { return tried; }

private:
  /// The arguments with random numbers, in the same layouts, in place of the operands'.
  std::vector<c10::IValue> randomOperands(const std::vector<c10::IValue> &arguments);
  std::optional<BlockedGemm> measure(const GemmShape &shape, const c10::OperatorHandle &op,
                                     const std::vector<c10::IValue> &arguments);

  const int threads;
  const Depths depths;
  std::chrono::nanoseconds timeForRepetitions = std::chrono::milliseconds(50);
  std::map<GemmShape, std::optional<BlockedGemm>> chosen;
  std::vector<GemmTrial> tried;
  at::Tensor numbers; // random, for operands
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_GEMMCHOICE_H
