//===- Operators.h - Operators that torch does not have ---------*- C++ -*-===//
//
// Steps call them beside aten's. They are torch operators of the namespace `fsdpc`. These have
// kernels for CPUs, CUDA devices and shapes (meta):
//
//   ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths,
//            int blank, bool zero_infinity) -> Tensor
//   ctc_loss_backward(Tensor grad, ..., as ctc_loss) -> Tensor
//
// aten::_ctc_loss and its derivative with respect to log_probs, without the second result of the
// former: its shape depends on the values of the lengths. The derivative computes it again.
//
// Collectives of the model's own code, over all ranks of the run, have shapes only; plans have
// entries of their own for them:
//
//   all_reduce(Tensor x, str op) -> Tensor       `op`: "sum", "avg" (floating-point numbers), "max"
//   all_gather(Tensor x, int ranks) -> Tensor    [ranks, *x.shape]: row r is x of rank r
//   reduce_scatter(Tensor x, str op) -> Tensor   of x [ranks, *s]: the reduction of the ranks' rows
//                                                r goes to rank r; `op`: "sum", "avg"
//   own_part(Tensor x) -> Tensor                 of x [ranks, *s]: row r on rank r; no collective
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_FRONTEND_OPERATORS_H
#define FSDP_FRONTEND_OPERATORS_H

#include <ATen/core/Tensor.h>

namespace fsdp {

/// Registers the operators with torch. To be called before a step is captured, interpreted or run;
/// further calls do nothing. Thread-safe.
void registerOperators();

/// The arguments of both operators but for the gradient.
struct CtcArguments {
  at::Tensor logProbs, targets, inputLengths, targetLengths;
  int64_t blank;
  bool zeroInfinity;
};
/// Calls of the operators by torch's dispatcher.
at::Tensor callCtcLoss(const CtcArguments &arguments);
at::Tensor callCtcLossBackward(const at::Tensor &gradient, const CtcArguments &arguments);

} // namespace fsdp

#endif // FSDP_FRONTEND_OPERATORS_H
