//===- TorchOptimizer.cpp - torch.optim's operator sequences ---------------===//

#include "executor/TorchOptimizer.h"
#include "cpu/FusedKernels.h"
#include "fsdp/Plan/Optimizers.h"
#include "plan/NormType.h"

#include <ATen/Parallel.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/sqrt.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace fsdp::rt;

namespace {
/// Works chunk by chunk, so that intermediate results stay in the cache and need little memory,
/// allocated once. Only the last chunk of a piece is not a multiple of every vector's length, as in
/// an operator on the whole piece. Threads share the chunks.
class TorchUpdate final : public ShardUpdate {
public:
  TorchUpdate(const fsdp_optimizer &optimizer, const ShardBuffers &shard);
  double run(int64_t step, double learningRate, const GradientFactors &factors) override;
  double partialNormOf(fsdp_norm_type type, int64_t shiftBytes) override;

private:
  static constexpr int64_t kChunkElements = 8192;

  /// A chunk's tensors in the dtypes of memory.
  struct Stored {
    at::Tensor parameters, gradients, state[FSDP_MAX_STATES];
  };
  /// The tensors of a chunk in the dtype of the computation, and temporaries. Those of other dtypes
  /// than in memory are buffers of a thread.
  struct Chunk {
    at::Tensor parameters, gradients, state[FSDP_MAX_STATES];
    at::Tensor ofParameters; // gradients in the parameters' dtype
    at::Tensor decayed, first, second;
  };
  /// The numbers of one step.
  struct Step {
    double number, learningRate;
    double product = 0; // nadam's
    bool isScaled = false, isClipped = false;
  };

  Chunk makeBuffers(const ShardBuffers &shard) const;
  Chunk load(const Stored &stored, const Chunk &buffers, const Step &step) const;
  void store(const Chunk &chunk, Stored &stored) const;
  void update(Chunk &chunk, const Step &step) const;
  double normPart(fsdp_norm_type type, const at::Tensor &gradients, int64_t shiftBytes = 0) const;

  void decayWeights(Chunk &chunk, double learningRate) const;
  void takeMoments(Chunk &chunk) const;
  void sgd(Chunk &chunk, const Step &step) const;
  void adam(Chunk &chunk, const Step &step) const;
  void rmsprop(Chunk &chunk, const Step &step) const;
  void adagrad(Chunk &chunk, const Step &step) const;
  void adamax(Chunk &chunk, const Step &step) const;
  void nadam(Chunk &chunk, const Step &step) const;
  void radam(Chunk &chunk, const Step &step) const;
  void adadelta(Chunk &chunk, const Step &step) const;

  const fsdp_optimizer optimizer;
  const at::ScalarType dtype; // of the computation
  const double clipValue;     // of each element of gradients, if the optimizer has one
  std::vector<Stored> chunks;
  std::vector<Chunk> buffers;    // by thread
  std::vector<double> normParts; // by chunk
  at::Tensor factor;             // a number of the parameters' dtype
  at::Tensor inverseScale;       // a number that does not promote dtypes
  fsdp::plan::NadamProduct product;
};
} // namespace

/// States of another dtype than the parameters are computed in fp32, and so are the parameters.
static at::ScalarType computedDtype(const ShardBuffers &shard) {
  return hasOwnStateDtype(shard) ? at::kFloat : static_cast<at::ScalarType>(shard.dtype);
}

static at::Tensor makeBuffer(int64_t elements, at::ScalarType dtype, bool isNeeded = true) {
  return isNeeded ? at::empty({elements}, at::TensorOptions().dtype(dtype)) : at::Tensor();
}

TorchUpdate::Chunk TorchUpdate::makeBuffers(const ShardBuffers &shard) const {
  const auto parameters = static_cast<at::ScalarType>(shard.dtype);
  const bool isWide = parameters != dtype;
  auto make = [&](bool isNeeded) { return makeBuffer(kChunkElements, dtype, isNeeded); };
  auto makeState = [&](unsigned i) {
    return make(shard.state[i] && static_cast<at::ScalarType>(shard.stateDtype[i]) != dtype);
  };
  const bool isChanged = shard.gradientDtype != shard.dtype || optimizer.clip_grad_value != 0 ||
                         (optimizer.options & FSDP_MAXIMIZE) != 0;
  return {.parameters = make(isWide),
          .gradients = make(isWide),
          .state = {makeState(0), makeState(1), makeState(2)},
          .ofParameters = makeBuffer(kChunkElements, parameters, isChanged),
          .decayed = make(optimizer.weight_decay != 0),
          .first = make(true),
          .second = make(optimizer.kind == FSDP_RADAM || optimizer.kind == FSDP_ADADELTA)};
}

TorchUpdate::TorchUpdate(const fsdp_optimizer &optimizer, const ShardBuffers &shard)
    : optimizer(optimizer), dtype(computedDtype(shard)),
      clipValue(clipValueIn(shard.dtype, optimizer)) {
  auto part = [](const std::byte *base, fsdp_dtype own, int64_t first, int64_t count) {
    if (!base)
      return at::Tensor();
    const auto type = static_cast<at::ScalarType>(own);
    std::byte *begin =
        const_cast<std::byte *>(base) + first * static_cast<int64_t>(c10::elementSize(type));
    return at::for_blob(begin, {count}).options(at::TensorOptions().dtype(type)).make_tensor();
  };
  for (const ShardPiece &piece : shard.pieces)
    for (int64_t done = 0; done < piece.count; done += kChunkElements) {
      const int64_t first = piece.first + done;
      const int64_t count = std::min(kChunkElements, piece.count - done);
      auto state = [&](unsigned i) {
        return part(shard.state[i], shard.stateDtype[i], first, count);
      };
      chunks.push_back({part(shard.parameters, shard.dtype, first, count),
                        part(shard.gradients, shard.gradientDtype, first, count),
                        {state(0), state(1), state(2)}});
    }
  for (int thread = 0; thread < at::get_num_threads(); ++thread)
    buffers.push_back(makeBuffers(shard));
  normParts.resize(chunks.size());
  factor = at::empty({}, at::TensorOptions().dtype(static_cast<at::ScalarType>(shard.dtype)));
  inverseScale = at::native::wrapped_scalar_tensor(1.0);
}

//===----------------------------------------------------------------------===//
// Chunks
//===----------------------------------------------------------------------===//

/// torch clips gradients in the parameters' dtype.
TorchUpdate::Chunk TorchUpdate::load(const Stored &stored, const Chunk &buffers,
                                     const Step &step) const {
  const int64_t count = stored.parameters.numel();
  auto buffer = [&](const at::Tensor &whole) {
    return count == kChunkElements || !whole.defined() ? whole : whole.narrow(0, 0, count);
  };
  auto in = [&](at::ScalarType type, const at::Tensor &tensor, const at::Tensor &whole) {
    if (!tensor.defined() || tensor.scalar_type() == type)
      return tensor;
    return buffer(whole).copy_(tensor);
  };
  Chunk chunk;
  chunk.parameters = in(dtype, stored.parameters, buffers.parameters);
  for (unsigned i = 0; i < FSDP_MAX_STATES; ++i)
    chunk.state[i] = in(dtype, stored.state[i], buffers.state[i]);
  at::Tensor clipped = buffer(buffers.ofParameters);
  at::Tensor gradients =
      in(stored.parameters.scalar_type(), stored.gradients, buffers.ofParameters);
  if (step.isScaled)
    gradients = at::mul_out(clipped, gradients, inverseScale);
  if (step.isClipped)
    gradients = at::mul_out(clipped, gradients, factor);
  if (optimizer.clip_grad_value != 0)
    gradients = at::clamp_out(clipped, gradients, -clipValue, clipValue);
  if (optimizer.options & FSDP_MAXIMIZE)
    gradients = at::neg_out(clipped, gradients);
  chunk.gradients = in(dtype, gradients, buffers.gradients);
  chunk.decayed = buffer(buffers.decayed);
  chunk.first = buffer(buffers.first);
  chunk.second = buffer(buffers.second);
  return chunk;
}

void TorchUpdate::store(const Chunk &chunk, Stored &stored) const {
  auto give = [](const at::Tensor &computed, at::Tensor &to) {
    if (to.defined() && !computed.is_same(to))
      to.copy_(computed);
  };
  give(chunk.parameters, stored.parameters);
  for (unsigned i = 0; i < FSDP_MAX_STATES; ++i)
    give(chunk.state[i], stored.state[i]);
}

template <typename T>
static double normPartOf(fsdp_norm_type type, const at::Tensor &tensor, int64_t shiftBytes) {
  const T *values = reinterpret_cast<const T *>(
      static_cast<const std::byte *>(tensor.const_data_ptr()) + shiftBytes);
  if constexpr (std::is_same_v<T, float>) {
    const FusedKernels &kernels = fusedKernels();
    auto part = type == FSDP_NORM_2   ? kernels.squareSum
                : type == FSDP_NORM_1 ? kernels.absoluteSum
                                      : kernels.largest;
    return part(values, static_cast<size_t>(tensor.numel()));
  }
  double part = 0;
  for (int64_t i = 0; i < tensor.numel(); ++i)
    part = joinNormParts(type, part, fsdp::rt::normPartOf(type, static_cast<double>(values[i])));
  return part;
}

double TorchUpdate::normPart(fsdp_norm_type type, const at::Tensor &gradients,
                             int64_t shiftBytes) const {
  switch (gradients.scalar_type()) {
  case at::kBFloat16:
    return normPartOf<at::BFloat16>(type, gradients, shiftBytes);
  case at::kHalf:
    return normPartOf<at::Half>(type, gradients, shiftBytes);
  case at::kDouble:
    return normPartOf<double>(type, gradients, shiftBytes);
  default:
    return normPartOf<float>(type, gradients, shiftBytes);
  }
}

double TorchUpdate::partialNormOf(fsdp_norm_type type, int64_t shiftBytes) {
  double part = 0;
  for (const Stored &chunk : chunks)
    part = joinNormParts(type, part, normPart(type, chunk.gradients, shiftBytes));
  return part;
}

double TorchUpdate::run(int64_t step, double learningRate, const GradientFactors &factors) {
  if (factors.clip)
    factor.fill_(*factors.clip);
  if (factors.inverseScale)
    inverseScale.fill_(*factors.inverseScale);
  if (factors.clip || factors.inverseScale)
    for (Chunk &buffer : buffers)
      if (!buffer.ofParameters.defined())
        buffer.ofParameters = makeBuffer(kChunkElements, factor.scalar_type());
  Step own{.number = static_cast<double>(step),
           .learningRate = learningRate,
           .isScaled = factors.inverseScale.has_value(),
           .isClipped = factors.clip.has_value()};
  if (optimizer.kind == FSDP_NADAM)
    own.product = product.at(optimizer, step);
  const auto count = static_cast<int64_t>(chunks.size());
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    at::AutoDispatchBelowADInplaceOrView belowAutograd; // of this thread
    for (int64_t i = begin; i < end; ++i) {
      normParts[i] = normPart(FSDP_NORM_2, chunks[i].gradients);
      Chunk chunk = load(chunks[i], buffers.at(at::get_thread_num()), own);
      update(chunk, own);
      store(chunk, chunks[i]);
    }
  });
  double sum = 0;
  for (double part : normParts)
    sum += part;
  return sum;
}

//===----------------------------------------------------------------------===//
// torch.optim
//===----------------------------------------------------------------------===//

/// As Python's `tensor.mul_(factor)`. C++'s mul_(Scalar) differs: CPU kernels round its factor to
/// the dtype of bf16 and fp16 tensors.
static at::Tensor &multiply(at::Tensor &tensor, double factor) {
  return tensor.mul_(at::native::wrapped_scalar_tensor(factor));
}

void TorchUpdate::decayWeights(Chunk &chunk, double learningRate) const {
  if (optimizer.weight_decay == 0)
    return;
  if (fsdp::plan::decouplesWeightDecay(optimizer))
    multiply(chunk.parameters, 1 - learningRate * optimizer.weight_decay);
  else
    chunk.gradients =
        at::add_out(chunk.decayed, chunk.gradients, chunk.parameters, optimizer.weight_decay);
}

/// The averages of gradients and of their squares, exp_avg and exp_avg_sq.
void TorchUpdate::takeMoments(Chunk &chunk) const {
  chunk.state[0].lerp_(chunk.gradients, 1 - optimizer.beta1);
  multiply(chunk.state[1], optimizer.beta2)
      .addcmul_(chunk.gradients, chunk.gradients, 1 - optimizer.beta2);
}

void TorchUpdate::sgd(Chunk &chunk, const Step &step) const {
  at::Tensor gradients = chunk.gradients;
  if (optimizer.momentum != 0) {
    if (step.number == 1)
      chunk.state[0].copy_(gradients);
    else
      multiply(chunk.state[0], optimizer.momentum).add_(gradients, 1 - optimizer.dampening);
    gradients = optimizer.options & FSDP_NESTEROV
                    ? at::add_out(chunk.first, gradients, chunk.state[0], optimizer.momentum)
                    : chunk.state[0];
  }
  chunk.parameters.add_(gradients, -step.learningRate);
}

void TorchUpdate::adam(Chunk &chunk, const Step &step) const {
  takeMoments(chunk);
  double correction1 = 1 - std::pow(optimizer.beta1, step.number);
  double correction2 = 1 - std::pow(optimizer.beta2, step.number);
  const bool amsgrad = optimizer.options & FSDP_AMSGRAD;
  if (amsgrad)
    at::maximum_out(chunk.state[2], chunk.state[2], chunk.state[1]);
  at::Tensor &denominator = at::sqrt_out(chunk.first, chunk.state[amsgrad ? 2 : 1]);
  denominator.div_(std::pow(correction2, 0.5)).add_(optimizer.eps);
  chunk.parameters.addcdiv_(chunk.state[0], denominator, -(step.learningRate / correction1));
}

void TorchUpdate::rmsprop(Chunk &chunk, const Step &step) const {
  const bool hasMomentum = optimizer.momentum > 0;
  at::Tensor &square = chunk.state[0];
  multiply(square, optimizer.alpha).addcmul_(chunk.gradients, chunk.gradients, 1 - optimizer.alpha);
  at::Tensor average = square;
  if (optimizer.options & FSDP_CENTERED) {
    at::Tensor &mean = chunk.state[hasMomentum ? 2 : 1];
    mean.lerp_(chunk.gradients, 1 - optimizer.alpha);
    average = at::addcmul_out(chunk.first, square, mean, mean, -1);
  }
  at::Tensor &root = at::sqrt_out(chunk.first, average).add_(optimizer.eps);
  if (!hasMomentum) {
    chunk.parameters.addcdiv_(chunk.gradients, root, -step.learningRate);
    return;
  }
  multiply(chunk.state[1], optimizer.momentum).addcdiv_(chunk.gradients, root);
  chunk.parameters.add_(chunk.state[1], -step.learningRate);
}

void TorchUpdate::adagrad(Chunk &chunk, const Step &step) const {
  at::Tensor &sum = chunk.state[0];
  if (step.number == 1)
    sum.fill_(optimizer.initial_accumulator_value);
  sum.addcmul_(chunk.gradients, chunk.gradients, 1);
  at::Tensor &root = at::sqrt_out(chunk.first, sum).add_(optimizer.eps);
  chunk.parameters.addcdiv_(chunk.gradients, root,
                            -(step.learningRate / (1 + (step.number - 1) * optimizer.lr_decay)));
}

void TorchUpdate::adamax(Chunk &chunk, const Step &step) const {
  chunk.state[0].lerp_(chunk.gradients, 1 - optimizer.beta1);
  at::Tensor &largest = chunk.state[1];
  at::abs_out(chunk.first, chunk.gradients).add_(optimizer.eps);
  at::maximum_out(largest, multiply(largest, optimizer.beta2), chunk.first);
  const double correction = 1 - std::pow(optimizer.beta1, step.number);
  chunk.parameters.addcdiv_(chunk.state[0], largest, -(step.learningRate / correction));
}

void TorchUpdate::nadam(Chunk &chunk, const Step &step) const {
  const double mu = fsdp::plan::nadamMomentum(optimizer, step.number);
  const double next = fsdp::plan::nadamMomentum(optimizer, step.number + 1);
  takeMoments(chunk);
  const double correction = 1 - std::pow(optimizer.beta2, step.number);
  at::Tensor &root = chunk.first;
  at::div_out(root, chunk.state[1], at::native::wrapped_scalar_tensor(correction));
  root.sqrt_().add_(optimizer.eps);
  chunk.parameters.addcdiv_(chunk.gradients, root,
                            -step.learningRate * (1 - mu) / (1 - step.product));
  chunk.parameters.addcdiv_(chunk.state[0], root,
                            -step.learningRate * next / (1 - step.product * next));
}

void TorchUpdate::radam(Chunk &chunk, const Step &step) const {
  takeMoments(chunk);
  const double correction1 = 1 - std::pow(optimizer.beta1, step.number);
  const double power2 = std::pow(optimizer.beta2, step.number), correction2 = 1 - power2;
  at::Tensor &change = chunk.first;
  at::div_out(change, chunk.state[0], at::native::wrapped_scalar_tensor(correction1));
  multiply(change, step.learningRate);
  const double limit = 2 / (1 - optimizer.beta2) - 1;
  const double length = limit - 2 * step.number * power2 / correction2;
  if (length > 5) {
    at::Tensor &rate = at::sqrt_out(chunk.second, chunk.state[1]).add_(optimizer.eps).reciprocal_();
    change.mul_(multiply(rate, std::pow(correction2, 0.5)));
    multiply(
        change,
        std::pow((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length), 0.5));
  }
  chunk.parameters.add_(change, -1);
}

void TorchUpdate::adadelta(Chunk &chunk, const Step &step) const {
  at::Tensor &square = chunk.state[0], &changes = chunk.state[1];
  multiply(square, optimizer.rho).addcmul_(chunk.gradients, chunk.gradients, 1 - optimizer.rho);
  const at::Tensor eps = at::native::wrapped_scalar_tensor(optimizer.eps);
  at::Tensor &root = at::add_out(chunk.first, square, eps).sqrt_();
  at::Tensor &change = at::add_out(chunk.second, changes, eps).sqrt_();
  change.div_(root).mul_(chunk.gradients);
  multiply(changes, optimizer.rho).addcmul_(change, change, 1 - optimizer.rho);
  chunk.parameters.add_(change, -step.learningRate);
}

void TorchUpdate::update(Chunk &chunk, const Step &step) const {
  decayWeights(chunk, step.learningRate);
  switch (optimizer.kind) {
  case FSDP_SGD:
    return sgd(chunk, step);
  case FSDP_RMSPROP:
    return rmsprop(chunk, step);
  case FSDP_ADAGRAD:
    return adagrad(chunk, step);
  case FSDP_ADAMAX:
    return adamax(chunk, step);
  case FSDP_NADAM:
    return nadam(chunk, step);
  case FSDP_RADAM:
    return radam(chunk, step);
  case FSDP_ADADELTA:
    return adadelta(chunk, step);
  default:
    return adam(chunk, step);
  }
}

std::unique_ptr<ShardUpdate> fsdp::rt::makeTorchUpdate(const fsdp_optimizer &optimizer,
                                                       const ShardBuffers &shard) {
  return std::make_unique<TorchUpdate>(optimizer, shard);
}
