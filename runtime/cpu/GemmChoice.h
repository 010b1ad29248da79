//===- GemmChoice.h - Chooses the kernel of a matrix product -- -*- C++ -*-===//
//
// Torch multiplies fp32 matrices with the BLAS library that it was built with. BlockedGemm replaces
// the operator where it gives the same bits in less time. When an executor is made, each distinct
// product of the plan runs on random data with torch's operator and with BlockedGemm, in the order
// of additions that torch's BLAS library is known to have. Whether this order begins with an
// addition to zero is tested with operands so small that only the signs of zeros remain. If a
// result differs in any bit, BlockedGemm is not used; else the faster one is taken. So the choice
// depends on the machine and on measured times, but the results do not.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_GEMMCHOICE_H
#define FSDP_RUNTIME_GEMMCHOICE_H

#include "cpu/BlockedGemm.h"
#include "cpu/KernelTrial.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <map>
#include <optional>
#include <vector>

namespace fsdp::rt {

/// The product that a call of `op` computes, if BlockedGemm can compute it: mm, bmm, or addmm with
/// both factors 1, of non-empty fp32 tensors.
struct GemmCall {
  GemmShape shape;
  GemmOperands operands; // c is null
  static std::optional<GemmCall> of(const c10::OperatorHandle &op,
                                    const std::vector<c10::IValue> &arguments);
};

/// The depth of the chains of additions in torch's BLAS library, as known, for products over k.
int64_t knownDepth(int64_t k);

/// The outcome of the trial for a shape.
struct GemmTrial {
  GemmShape shape;
  GemmOrder order;
  bool sameBits;                     // as torch's operator
  double torchMs = 0, blockedMs = 0; // the shortest runs, in time of this thread
};

/// Chooses a kernel for each product, once per shape.
class GemmChooser {
public:
  /// `threads`: number of threads of an operator.
  explicit GemmChooser(int threads, int64_t (*depthOf)(int64_t k) = knownDepth)
      : threads(threads), depthOf(depthOf) {}

  /// The kernel for the product `call` of `op` with `arguments`, or none: torch's operator. The
  /// contents of the operands do not matter and do not change. A new shape costs a run of each
  /// kernel, and some repetitions.
  std::optional<BlockedGemm> choose(const GemmCall &call, const c10::OperatorHandle &op,
                                    const std::vector<c10::IValue> &arguments);

  /// All trials, in order.
  const std::vector<GemmTrial> &tried() const { return trialsOfShapes; }

private:
  std::optional<BlockedGemm> measure(const GemmShape &shape, const c10::OperatorHandle &op,
                                     const std::vector<c10::IValue> &arguments);

  const int threads;
  int64_t (*const depthOf)(int64_t k);
  KernelTrials trials;
  std::map<GemmShape, std::optional<BlockedGemm>> chosen;
  std::vector<GemmTrial> trialsOfShapes;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_GEMMCHOICE_H
