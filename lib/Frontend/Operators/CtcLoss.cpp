//===- CtcLoss.cpp - The CTC loss with results of fixed shapes ------------===//

#include "Definitions.h"
#include "fsdp/Frontend/Operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_ctc_loss.h>
#include <ATen/ops/_ctc_loss_backward.h>
#include <ATen/ops/empty.h>

using at::Tensor;
using c10::DispatchKey;

static Tensor ctcLoss(const Tensor &logProbs, const Tensor &targets, const Tensor &inputLengths,
                      const Tensor &targetLengths, int64_t blank, bool zeroInfinity) {
  return std::get<0>(
      at::_ctc_loss(logProbs, targets, inputLengths, targetLengths, blank, zeroInfinity));
}

static Tensor ctcLossBackward(const Tensor &gradient, const Tensor &logProbs, const Tensor &targets,
                              const Tensor &inputLengths, const Tensor &targetLengths,
                              int64_t blank, bool zeroInfinity) {
  auto [losses, logAlpha] =
      at::_ctc_loss(logProbs, targets, inputLengths, targetLengths, blank, zeroInfinity);
  return at::_ctc_loss_backward(gradient, logProbs, targets, inputLengths, targetLengths, losses,
                                logAlpha, blank, zeroInfinity);
}

/// torch checks the values of targets and lengths when the step runs.
static Tensor shapeOfLoss(const Tensor &logProbs, const Tensor &targets, const Tensor &inputLengths,
                          const Tensor &targetLengths, int64_t, bool) {
  const at::ScalarType type = logProbs.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kDouble, "ctc_loss takes fp32 or fp64, not ",
              toString(type), ": compute log_softmax with dtype=torch.float32");
  TORCH_CHECK(logProbs.dim() == 3, "ctc_loss takes log_probs of 3 dimensions, not ",
              logProbs.dim());
  const int64_t batch = logProbs.size(1);
  for (const Tensor &lengths : {inputLengths, targetLengths})
    TORCH_CHECK(at::isIntegralType(lengths.scalar_type(), /*includeBool=*/false) &&
                    lengths.numel() == batch,
                "ctc_loss takes ", batch, " whole numbers of each kind of lengths, not ",
                lengths.numel(), " of ", toString(lengths.scalar_type()));
  TORCH_CHECK(targets.dim() == 1 || (targets.dim() == 2 && targets.size(0) == batch),
              "ctc_loss takes targets of ", batch, " rows, or of one dimension, not of sizes ",
              targets.sizes());
  return at::empty({batch}, logProbs.options());
}

static Tensor shapeOfGradient(const Tensor &, const Tensor &logProbs, const Tensor &,
                              const Tensor &, const Tensor &, int64_t, bool) {
  return at::empty(logProbs.sizes(), logProbs.options());
}

static constexpr const char *kArguments =
    "Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank, "
    "bool zero_infinity) -> Tensor";

void fsdp::defineCtcLoss(torch::Library &library) {
  library.def((std::string("ctc_loss(") + kArguments).c_str());
  library.def((std::string("ctc_loss_backward(Tensor grad, ") + kArguments).c_str());
  for (DispatchKey key : {DispatchKey::CPU, DispatchKey::CUDA}) {
    library.impl("ctc_loss", torch::dispatch(key, &ctcLoss));
    library.impl("ctc_loss_backward", torch::dispatch(key, &ctcLossBackward));
  }
  library.impl("ctc_loss", torch::dispatch(DispatchKey::Meta, &shapeOfLoss));
  library.impl("ctc_loss_backward", torch::dispatch(DispatchKey::Meta, &shapeOfGradient));
}

Tensor fsdp::callCtcLoss(const CtcArguments &a) {
  static const auto call = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("fsdpc::ctc_loss", "")
                               .typed<decltype(ctcLoss)>();
  return call.call(a.logProbs, a.targets, a.inputLengths, a.targetLengths, a.blank, a.zeroInfinity);
}

Tensor fsdp::callCtcLossBackward(const Tensor &gradient, const CtcArguments &a) {
  static const auto call = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("fsdpc::ctc_loss_backward", "")
                               .typed<decltype(ctcLossBackward)>();
  return call.call(gradient, a.logProbs, a.targets, a.inputLengths, a.targetLengths, a.blank,
                   a.zeroInfinity);
}
