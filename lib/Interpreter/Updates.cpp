//===- Updates.cpp - Optimizer steps of flat tensors ----------------------===//

#include "Updates.h"
#include "Arguments.h"

#include "fsdp/Analysis/GroupTable.h"
#include "fsdp/Analysis/OptimizerValues.h"
#include "fsdp/IR/OptimizerOptions.h"
#include "fsdp/Interpreter/Interpreter.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/add.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <stdexcept>

using namespace mlir;
using namespace fsdp;

// Vector loops and their remainders may round differently: all operators run on whole chunks, which
// no operator splits over threads.
static constexpr int64_t kChunkElements = 8192;

namespace {
struct Chunk {
  at::Tensor parameters, gradients;
  SmallVector<at::Tensor, 2> states;
};
} // namespace

/// Python's `tensor.mul_(factor)`. C++'s mul_ takes a number, which CPU kernels round to the dtype
/// of bf16 and fp16 tensors.
static at::Tensor &multiply(at::Tensor &tensor, double factor) {
  return tensor.mul_(at::native::wrapped_scalar_tensor(factor));
}

static void runSgd(const OptimizerValues &values, int64_t step, Chunk &chunk) {
  at::Tensor gradients = chunk.gradients;
  if (values.weightDecay != 0)
    gradients = gradients.add(chunk.parameters, values.weightDecay);
  if (!chunk.states.empty()) {
    at::Tensor &momentum = chunk.states[0];
    if (step == 1)
      momentum.copy_(gradients);
    else
      multiply(momentum, values.momentum).add_(gradients, 1 - values.dampening);
    gradients = values.nesterov ? gradients.add(momentum, values.momentum) : momentum;
  }
  chunk.parameters.add_(gradients, -values.lr);
}

static void runAdam(const OptimizerValues &values, int64_t step, Chunk &chunk) {
  at::Tensor gradients = chunk.gradients;
  if (values.weightDecay != 0) {
    if (values.kind == OptimizerKind::AdamW)
      multiply(chunk.parameters, 1 - values.lr * values.weightDecay);
    else
      gradients = gradients.add(chunk.parameters, values.weightDecay);
  }
  chunk.states[0].lerp_(gradients, 1 - values.beta1);
  multiply(chunk.states[1], values.beta2).addcmul_(gradients, gradients, 1 - values.beta2);
  double correction1 = 1 - std::pow(values.beta1, step);
  double correction2 = 1 - std::pow(values.beta2, step);
  if (values.amsgrad)
    at::maximum_out(chunk.states[2], chunk.states[2], chunk.states[1]);
  at::Tensor denominator = chunk.states[values.amsgrad ? 2 : 1].sqrt();
  denominator.div_(std::sqrt(correction2)).add_(values.eps);
  chunk.parameters.addcdiv_(chunk.states[0], denominator, -(values.lr / correction1));
}

void fsdp::interpreter::updateFlat(const OptimizerValues &values, int64_t step,
                                   at::Tensor &parameters, at::Tensor gradients,
                                   MutableArrayRef<at::Tensor> states,
                                   std::optional<float> clipFactor) {
  gradients = gradients.to(parameters.scalar_type());
  if (clipFactor)
    gradients = gradients.mul(at::full({}, *clipFactor, gradients.options()));
  if (values.maximize)
    gradients = gradients.neg();
  // If a state has another dtype, computation is in fp32, and results are rounded when stored.
  const bool isWide = llvm::any_of(states, [&](const at::Tensor &state) {
    return state.scalar_type() != parameters.scalar_type();
  });
  const at::ScalarType dtype = isWide ? at::kFloat : parameters.scalar_type();
  for (int64_t first = 0; first < parameters.numel(); first += kChunkElements) {
    int64_t count = std::min(kChunkElements, parameters.numel() - first);
    auto take = [&](const at::Tensor &tensor) {
      at::Tensor whole = at::zeros({kChunkElements}, tensor.options().dtype(dtype));
      whole.narrow(0, 0, count).copy_(tensor.narrow(0, first, count));
      return whole;
    };
    Chunk chunk{take(parameters), take(gradients), llvm::map_to_vector<2>(states, take)};
    if (values.kind == OptimizerKind::SGD)
      runSgd(values, step, chunk);
    else
      runAdam(values, step, chunk);
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
  return factor > 1 ? 1 : factor; // NaN is kept
}

void fsdp::interpreter::updateWhole(ModuleOp module, const std::string &name, at::Tensor &parameter,
                                    const at::Tensor &gradient, std::optional<float> clipFactor) {
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  FailureOr<OptimizerTable> optimizers = OptimizerTable::build(module);
  if (failed(optimizers))
    throw std::runtime_error("the module's optimizer is not valid");
  const OptimizerValues &values = optimizers->lookup(StringAttr::get(module.getContext(), name));
  OptimizerOp optimizer = *module.getOps<OptimizerOp>().begin();
  at::Tensor flat = parameter.detach().reshape({-1}).clone();
  SmallVector<at::Tensor, 2> states;
  for (StringRef name : getStateNames(optimizer)) {
    DictionaryAttr said = optimizer.getStateDtypeAttr();
    auto own = said ? said.getAs<TypeAttr>(name) : TypeAttr();
    states.push_back(at::zeros_like(
        flat, flat.options().dtype(own ? convertElementType(own.getValue()) : flat.scalar_type())));
  }
  updateFlat(values, /*step=*/1, flat, gradient.reshape({-1}), states, clipFactor);
  parameter = flat.view(parameter.sizes());
}
