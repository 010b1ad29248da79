//===- Updates.cpp - Optimizer steps of flat tensors ----------------------===//

#include "Updates.h"
#include "Arguments.h"

#include "fsdp/Analysis/GroupTable.h"
#include "fsdp/Analysis/OptimizerValues.h"
#include "fsdp/IR/OptimizerOptions.h"
#include "fsdp/Interpreter/Interpreter.h"
#include "fsdp/Plan/Optimizers.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/add.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/scalar_tensor.h>
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

/// Applies weight decay to the parameters, or to the gradients, which it returns.
static at::Tensor decayWeights(const fsdp_optimizer &values, Chunk &chunk) {
  if (values.weight_decay == 0)
    return chunk.gradients;
  if (!plan::decouplesWeightDecay(values))
    return chunk.gradients.add(chunk.parameters, values.weight_decay);
  multiply(chunk.parameters, 1 - values.lr * values.weight_decay);
  return chunk.gradients;
}

/// The averages of gradients and of their squares, exp_avg and exp_avg_sq.
static void takeMoments(const fsdp_optimizer &values, const at::Tensor &gradients, Chunk &chunk) {
  chunk.states[0].lerp_(gradients, 1 - values.beta1);
  multiply(chunk.states[1], values.beta2).addcmul_(gradients, gradients, 1 - values.beta2);
}

static void runSgd(const fsdp_optimizer &values, int64_t step, Chunk &chunk) {
  at::Tensor gradients = decayWeights(values, chunk);
  if (values.momentum != 0) {
    at::Tensor &momentum = chunk.states[0];
    if (step == 1)
      momentum.copy_(gradients);
    else
      multiply(momentum, values.momentum).add_(gradients, 1 - values.dampening);
    gradients =
        values.options & FSDP_NESTEROV ? gradients.add(momentum, values.momentum) : momentum;
  }
  chunk.parameters.add_(gradients, -values.lr);
}

static void runAdam(const fsdp_optimizer &values, int64_t step, Chunk &chunk) {
  at::Tensor gradients = decayWeights(values, chunk);
  takeMoments(values, gradients, chunk);
  double correction1 = 1 - std::pow(values.beta1, step);
  double correction2 = 1 - std::pow(values.beta2, step);
  if (values.options & FSDP_AMSGRAD)
    at::maximum_out(chunk.states[2], chunk.states[2], chunk.states[1]);
  at::Tensor denominator = chunk.states[(values.options & FSDP_AMSGRAD) ? 2 : 1].sqrt();
  denominator.div_(std::sqrt(correction2)).add_(values.eps);
  chunk.parameters.addcdiv_(chunk.states[0], denominator, -(values.lr / correction1));
}

static void runRmsprop(const fsdp_optimizer &values, Chunk &chunk) {
  at::Tensor gradients = decayWeights(values, chunk);
  at::Tensor &square = chunk.states.front();
  multiply(square, values.alpha).addcmul_(gradients, gradients, 1 - values.alpha);
  at::Tensor average = square;
  if (values.options & FSDP_CENTERED) {
    at::Tensor &mean = chunk.states[values.momentum > 0 ? 2 : 1];
    mean.lerp_(gradients, 1 - values.alpha);
    average = square.addcmul(mean, mean, -1);
  }
  average = average.sqrt().add_(values.eps);
  if (values.momentum > 0) {
    multiply(chunk.states[1], values.momentum).addcdiv_(gradients, average);
    chunk.parameters.add_(chunk.states[1], -values.lr);
  } else {
    chunk.parameters.addcdiv_(gradients, average, -values.lr);
  }
}

static void runAdagrad(const fsdp_optimizer &values, double step, Chunk &chunk) {
  at::Tensor gradients = decayWeights(values, chunk);
  at::Tensor &sum = chunk.states[0];
  if (step == 1)
    sum.fill_(values.initial_accumulator_value);
  sum.addcmul_(gradients, gradients, 1);
  chunk.parameters.addcdiv_(gradients, sum.sqrt().add_(values.eps),
                            -(values.lr / (1 + (step - 1) * values.lr_decay)));
}

static void runAdamax(const fsdp_optimizer &values, double step, Chunk &chunk) {
  at::Tensor gradients = decayWeights(values, chunk);
  chunk.states[0].lerp_(gradients, 1 - values.beta1);
  at::Tensor &largest = chunk.states[1];
  at::maximum_out(largest, multiply(largest, values.beta2), gradients.abs().add_(values.eps));
  chunk.parameters.addcdiv_(chunk.states[0], largest,
                            -(values.lr / (1 - std::pow(values.beta1, step))));
}

static void runNadam(const fsdp_optimizer &values, int64_t step, Chunk &chunk) {
  at::Tensor gradients = decayWeights(values, chunk);
  const auto time = static_cast<double>(step);
  const double mu = plan::nadamMomentum(values, time), next = plan::nadamMomentum(values, time + 1);
  const double product = plan::nadamProduct(values, step);
  takeMoments(values, gradients, chunk);
  at::Tensor denominator =
      chunk.states[1].div(1 - std::pow(values.beta2, time)).sqrt().add_(values.eps);
  chunk.parameters.addcdiv_(gradients, denominator, -values.lr * (1 - mu) / (1 - product));
  chunk.parameters.addcdiv_(chunk.states[0], denominator,
                            (-values.lr * next) / (1 - product * next));
}

static void runRadam(const fsdp_optimizer &values, double step, Chunk &chunk) {
  at::Tensor gradients = decayWeights(values, chunk);
  takeMoments(values, gradients, chunk);
  const double correction2 = 1 - std::pow(values.beta2, step);
  at::Tensor change = chunk.states[0].div(1 - std::pow(values.beta1, step));
  multiply(change, values.lr);
  const double limit = 2 / (1 - values.beta2) - 1;
  const double length = limit - 2 * step * std::pow(values.beta2, step) / correction2;
  if (length > 5) {
    at::Tensor rate = chunk.states[1].sqrt().add_(values.eps).reciprocal();
    change = change.mul(multiply(rate, std::pow(correction2, 0.5)));
    multiply(
        change,
        std::pow((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length), 0.5));
  }
  chunk.parameters.add_(change, -1);
}

static void runAdadelta(const fsdp_optimizer &values, Chunk &chunk) {
  at::Tensor gradients = decayWeights(values, chunk);
  at::Tensor &square = chunk.states[0], &changes = chunk.states[1];
  multiply(square, values.rho).addcmul_(gradients, gradients, 1 - values.rho);
  at::Tensor change = changes.add(values.eps).sqrt_();
  change.div_(square.add(values.eps).sqrt_()).mul_(gradients);
  multiply(changes, values.rho).addcmul_(change, change, 1 - values.rho);
  chunk.parameters.add_(change, -values.lr);
}

static void runChunk(const fsdp_optimizer &values, int64_t step, Chunk &chunk) {
  const auto time = static_cast<double>(step);
  switch (values.kind) {
  case FSDP_SGD:
    return runSgd(values, step, chunk);
  case FSDP_RMSPROP:
    return runRmsprop(values, chunk);
  case FSDP_ADAGRAD:
    return runAdagrad(values, time, chunk);
  case FSDP_ADAMAX:
    return runAdamax(values, time, chunk);
  case FSDP_NADAM:
    return runNadam(values, step, chunk);
  case FSDP_RADAM:
    return runRadam(values, time, chunk);
  case FSDP_ADADELTA:
    return runAdadelta(values, chunk);
  default:
    return runAdam(values, step, chunk);
  }
}

/// A whole chunk: `count` elements from `first` on, and zeros.
static at::Tensor takeChunk(const at::Tensor &tensor, int64_t first, int64_t count,
                            at::ScalarType dtype) {
  at::Tensor whole = at::zeros({kChunkElements}, tensor.options().dtype(dtype));
  whole.narrow(0, 0, count).copy_(tensor.narrow(0, first, count));
  return whole;
}

static void giveChunk(at::Tensor &tensor, int64_t first, int64_t count, const at::Tensor &whole) {
  tensor.narrow(0, first, count).copy_(whole.narrow(0, 0, count));
}

/// The moving average of the parameters, which begins with those of the first step.
static void takeAverage(const fsdp_optimizer &values, int64_t step, const at::Tensor &parameters,
                        at::Tensor &average) {
  const bool isWide = average.scalar_type() != parameters.scalar_type();
  const at::ScalarType dtype = isWide ? at::kFloat : parameters.scalar_type();
  for (int64_t first = 0; first < parameters.numel(); first += kChunkElements) {
    int64_t count = std::min(kChunkElements, parameters.numel() - first);
    at::Tensor own = takeChunk(parameters, first, count, dtype);
    if (step > 1)
      own = takeChunk(average, first, count, dtype).lerp_(own, 1 - values.ema_decay);
    giveChunk(average, first, count, own);
  }
}

void fsdp::interpreter::updateFlat(const fsdp_optimizer &values, int64_t step,
                                   at::Tensor &parameters, at::Tensor gradients,
                                   MutableArrayRef<at::Tensor> states,
                                   const GradientFactors &factors) {
  if (factors.leaveUpdateOut())
    return;
  const bool isAveraged = values.ema_decay != 0; // the average is the last state
  MutableArrayRef<at::Tensor> own = states.drop_back(isAveraged);
  gradients = gradients.to(parameters.scalar_type());
  if (factors.inverseScale)
    gradients = gradients.mul(at::native::wrapped_scalar_tensor(double(*factors.inverseScale)));
  if (factors.clip)
    gradients = gradients.mul(at::full({}, *factors.clip, gradients.options()));
  if (values.clip_grad_value != 0) {
    at::Tensor limit = at::scalar_tensor(values.clip_grad_value, at::kDouble).to(gradients.dtype());
    gradients = gradients.clamp(-limit, limit);
  }
  if (values.options & FSDP_MAXIMIZE)
    gradients = gradients.neg();
  // If a state has another dtype, computation is in fp32, and results are rounded when stored.
  const bool isWide = llvm::any_of(own, [&](const at::Tensor &state) {
    return state.scalar_type() != parameters.scalar_type();
  });
  const at::ScalarType dtype = isWide ? at::kFloat : parameters.scalar_type();
  for (int64_t first = 0; first < parameters.numel(); first += kChunkElements) {
    int64_t count = std::min(kChunkElements, parameters.numel() - first);
    auto take = [&](const at::Tensor &tensor) { return takeChunk(tensor, first, count, dtype); };
    Chunk chunk{take(parameters), take(gradients), llvm::map_to_vector<2>(own, take)};
    runChunk(values, step, chunk);
    giveChunk(parameters, first, count, chunk.parameters);
    for (auto [state, whole] : llvm::zip_equal(own, chunk.states))
      giveChunk(state, first, count, whole);
  }
  if (isAveraged)
    takeAverage(values, step, parameters, states.back());
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

std::optional<float> fsdp::interpreter::getInverseScale(OptimizerOp optimizer) {
  std::optional<APFloat> scale = optimizer.getLossScale();
  if (!scale)
    return std::nullopt;
  return static_cast<float>(1 / static_cast<double>(static_cast<float>(scale->convertToDouble())));
}

float fsdp::interpreter::computeClipFactor(OptimizerOp optimizer, double total) {
  std::optional<float> inverseScale = getInverseScale(optimizer);
  if (inverseScale && !std::isfinite(total))
    return std::numeric_limits<float>::quiet_NaN();
  std::optional<APFloat> maxNorm = optimizer.getClipGradNorm();
  if (!maxNorm)
    return 1;
  const double root = optimizer.getClipNormType() == NormType::Two ? std::sqrt(total) : total;
  const auto norm = static_cast<float>(root * inverseScale.value_or(1));
  const float factor = 1 / (norm + 1e-6f) * static_cast<float>(maxNorm->convertToDouble());
  return factor > 1 ? 1 : factor; // NaN is kept
}

void fsdp::interpreter::updateWhole(ModuleOp module, const std::string &name, at::Tensor &parameter,
                                    const at::Tensor &gradient, std::optional<float> clipFactor) {
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  FailureOr<OptimizerTable> optimizers = OptimizerTable::build(module);
  if (failed(optimizers))
    throw std::runtime_error("the module's optimizer is not valid");
  const fsdp_optimizer &values = optimizers->lookup(StringAttr::get(module.getContext(), name));
  OptimizerOp optimizer = *module.getOps<OptimizerOp>().begin();
  at::Tensor flat = parameter.detach().reshape({-1}).clone();
  SmallVector<at::Tensor, 2> states;
  for (StringRef name : getStateNames(optimizer)) {
    DictionaryAttr said = optimizer.getStateDtypeAttr();
    auto own = said ? said.getAs<TypeAttr>(name) : TypeAttr();
    states.push_back(at::zeros_like(
        flat, flat.options().dtype(own ? convertElementType(own.getValue()) : flat.scalar_type())));
  }
  updateFlat(values, /*step=*/1, flat, gradient.reshape({-1}), states,
             {getInverseScale(optimizer), clipFactor});
  parameter = flat.view(parameter.sizes());
}
