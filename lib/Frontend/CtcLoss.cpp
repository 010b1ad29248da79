//===- CtcLoss.cpp - The form in which the CTC loss is recorded -----------===//
//
// aten::_ctc_loss has a second result, whose shape depends on the values of the lengths if these
// are tensors. Steps call fsdpc::ctc_loss and its derivative instead, of which all shapes are
// fixed.
//
//===----------------------------------------------------------------------===//

#include "Overrides.h"

#include "fsdp/Frontend/Operators.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/_ctc_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>

using namespace fsdp;
using namespace fsdp::frontend;
using at::Tensor;

namespace {
struct CtcLoss : torch::autograd::Function<CtcLoss> {
  static Tensor forward(torch::autograd::AutogradContext *context, const Tensor &logProbs,
                        const Tensor &targets, const Tensor &inputLengths,
                        const Tensor &targetLengths, int64_t blank, bool zeroInfinity) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({logProbs, targets, inputLengths, targetLengths});
    context->saved_data["blank"] = blank;
    context->saved_data["zero_infinity"] = zeroInfinity;
    return callCtcLoss({logProbs, targets, inputLengths, targetLengths, blank, zeroInfinity});
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *context,
                                                 const torch::autograd::variable_list &gradients) {
    auto saved = context->get_saved_variables();
    at::AutoDispatchBelowADInplaceOrView below;
    Tensor ofLogProbs = callCtcLossBackward(
        gradients[0], {saved[0], saved[1], saved[2], saved[3], context->saved_data["blank"].toInt(),
                       context->saved_data["zero_infinity"].toBool()});
    return {ofLogProbs, Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};
} // namespace

static std::tuple<Tensor, Tensor> ctcLoss(const Tensor &logProbs, const Tensor &targets,
                                          const Tensor &inputLengths, const Tensor &targetLengths,
                                          int64_t blank, bool zeroInfinity) {
  // torch's composite, which calls this, ignores the second result.
  return {CtcLoss::apply(logProbs, targets, inputLengths, targetLengths, blank, zeroInfinity),
          Tensor()};
}

/// Lengths that are numbers: as torch's composite (ATen/native/LossCTC.cpp), which would put the
/// targets' lengths into a tensor whose values capture does not see.
static Tensor ctcLossOfNumbers(const Tensor &logProbs, const Tensor &targets,
                               at::IntArrayRef inputLengths, at::IntArrayRef targetLengths,
                               int64_t blank, int64_t reduction, bool zeroInfinity) {
  const bool isBatched = logProbs.dim() == 3;
  Tensor losses =
      std::get<0>(at::_ctc_loss(isBatched ? logProbs : logProbs.unsqueeze(1), targets.to(at::kLong),
                                inputLengths, targetLengths, blank, zeroInfinity));
  if (zeroInfinity)
    losses = at::where(losses.eq(std::numeric_limits<double>::infinity()),
                       at::zeros({}, losses.options()), losses);
  if (reduction == at::Reduction::Sum)
    return losses.sum();
  if (reduction != at::Reduction::Mean)
    return isBatched ? losses : losses.squeeze(0);
  std::vector<Tensor> lengths;
  for (int64_t length : targetLengths)
    lengths.push_back(at::full({}, std::max<int64_t>(length, 1), losses.options()));
  return losses.div(at::stack(lengths)).mean();
}

void Overrides::addCtcLoss() {
  library.impl("_ctc_loss.Tensor", &ctcLoss);
  library.impl("ctc_loss.IntList", &ctcLossOfNumbers);
}
