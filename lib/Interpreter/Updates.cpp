//===- Updates.cpp - Optimizer steps of flat tensors ----------------------===//

#include "Updates.h"

#include "fsdp/Analysis/GroupTable.h"
#include "fsdp/Interpreter/Interpreter.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/add.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

using namespace mlir;
using namespace fsdp;

// Vectors and what is left over may round differently: all work on whole chunks, which no operator
// splits over threads.
static constexpr int64_t kChunkElements = 8192;

namespace {
struct Chunk {
  at::Tensor parameters, gradients;
  SmallVector<at::Tensor, 2> states;
};
} // namespace

static void runSgd(OptimizerOp optimizer, int64_t step, Chunk &chunk) {
  at::Tensor gradients = chunk.gradients;
  if (double decay = optimizer.getWeightDecay().convertToDouble(); decay != 0)
    gradients = gradients.add(chunk.parameters, decay);
  if (!chunk.states.empty()) {
    if (step == 1)
      chunk.states[0].copy_(gradients);
    else
      chunk.states[0].mul_(optimizer.getMomentum()->convertToDouble()).add_(gradients, 1.0);
    gradients = chunk.states[0];
  }
  chunk.parameters.add_(gradients, -optimizer.getLr().convertToDouble());
}

static void runAdam(OptimizerOp optimizer, int64_t step, Chunk &chunk) {
  double decay = optimizer.getWeightDecay().convertToDouble();
  double lr = optimizer.getLr().convertToDouble();
  double beta1 = (*optimizer.getBetas())[0], beta2 = (*optimizer.getBetas())[1];
  at::Tensor gradients = chunk.gradients;
  if (decay != 0) {
    if (optimizer.getKind() == OptimizerKind::AdamW)
      chunk.parameters.mul_(1 - lr * decay);
    else
      gradients = gradients.add(chunk.parameters, decay);
  }
  chunk.states[0].lerp_(gradients, 1 - beta1);
  chunk.states[1].mul_(beta2).addcmul_(gradients, gradients, 1 - beta2);
  double correction1 = 1 - std::pow(beta1, step), correction2 = 1 - std::pow(beta2, step);
  at::Tensor denominator = chunk.states[1].sqrt();
  denominator.div_(std::sqrt(correction2)).add_(optimizer.getEps()->convertToDouble());
  chunk.parameters.addcdiv_(chunk.states[0], denominator, -(lr / correction1));
}

void fsdp::interpreter::updateFlat(OptimizerOp optimizer, int64_t step, at::Tensor &parameters,
                                   at::Tensor gradients, MutableArrayRef<at::Tensor> states,
                                   std::optional<float> clipFactor) {
  gradients = gradients.to(parameters.scalar_type());
  if (clipFactor)
    gradients = gradients.mul(at::full({}, *clipFactor, gradients.options()));
  for (int64_t first = 0; first < parameters.numel(); first += kChunkElements) {
    int64_t count = std::min(kChunkElements, parameters.numel() - first);
    auto take = [&](const at::Tensor &tensor) {
      at::Tensor whole = at::zeros({kChunkElements}, tensor.options());
      whole.narrow(0, 0, count).copy_(tensor.narrow(0, first, count));
      return whole;
    };
    Chunk chunk{take(parameters), take(gradients), llvm::map_to_vector<2>(states, take)};
    if (optimizer.getKind() == OptimizerKind::SGD)
      runSgd(optimizer, step, chunk);
    else
      runAdam(optimizer, step, chunk);
    auto give = [&](at::Tensor &tensor, const at::Tensor &whole) {
      tensor.narrow(0, first, count).copy_(whole.narrow(0, 0, count));
    };
    give(parameters, chunk.parameters);
    for (auto [state, whole] : llvm::zip_equal(states, chunk.states))
      give(state, whole);
  }
}

at::Tensor fsdp::interpreter::computeNormPart(NormType type, const at::Tensor &values) {
  at::Tensor wide = values.to(at::kDouble);
  if (type == NormType::Two)
    return wide.square().sum();
  if (type == NormType::One || wide.numel() == 0)
    return wide.abs().sum();
  return wide.abs().max();
}

at::Tensor fsdp::interpreter::joinNormParts(NormType type, const at::Tensor &a,
                                            const at::Tensor &b) {
  return type == NormType::Infinity ? at::maximum(a, b) : at::add(a, b);
}

float fsdp::interpreter::computeClipFactor(NormType type, double total, float maxNorm) {
  const auto norm = static_cast<float>(type == NormType::Two ? std::sqrt(total) : total);
  const float factor = 1 / (norm + 1e-6f) * maxNorm;
  return factor > 1 ? 1 : factor; // a NaN stays
}

void fsdp::interpreter::updateWhole(ModuleOp module, at::Tensor &parameter,
                                    const at::Tensor &gradient, std::optional<float> clipFactor) {
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  OptimizerOp optimizer = *module.getOps<OptimizerOp>().begin();
  at::Tensor flat = parameter.detach().reshape({-1}).clone();
  SmallVector<at::Tensor, 2> states(getNumOptimizerStates(optimizer), at::Tensor());
  for (at::Tensor &state : states)
    state = at::zeros_like(flat);
  updateFlat(optimizer, /*step=*/1, flat, gradient.reshape({-1}), states, clipFactor);
  parameter = flat.view(parameter.sizes());
}
