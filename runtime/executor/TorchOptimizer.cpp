//===- TorchOptimizer.cpp - torch.optim's operator sequences ---------------===//

#include "executor/TorchOptimizer.h"
#include "plan/NormType.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
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
/// an operator on the whole piece.
class TorchUpdate final : public ShardUpdate {
public:
  TorchUpdate(const fsdp_optimizer &optimizer, const ShardBuffers &shard);
  double run(int64_t step, double learningRate, const float *clipFactor) override;
  double partialNormOf(fsdp_norm_type type, int64_t shiftBytes) override;

private:
  static constexpr int64_t kChunkElements = 8192;

  struct Chunk {
    at::Tensor parameters, gradients, state[FSDP_MAX_STATES];
    at::Tensor decayed, denominator, clipped; // temporaries, shared by chunks of one size
  };
  void sgd(Chunk &chunk, at::Tensor gradients, int64_t step, double learningRate);
  void adam(Chunk &chunk, at::Tensor gradients, int64_t step, double learningRate);
  double normPart(fsdp_norm_type type, const at::Tensor &gradients, int64_t shiftBytes = 0) const;

  const fsdp_optimizer optimizer;
  const at::ScalarType dtype;
  std::vector<Chunk> chunks;
  at::Tensor factor; // a number of `dtype`
};
} // namespace

TorchUpdate::TorchUpdate(const fsdp_optimizer &optimizer, const ShardBuffers &shard)
    : optimizer(optimizer), dtype(static_cast<at::ScalarType>(shard.dtype)) {
  at::TensorOptions options = at::TensorOptions().dtype(dtype);
  auto elementBytes = static_cast<int64_t>(c10::elementSize(dtype));
  at::Tensor decayed = at::empty({kChunkElements}, options);
  at::Tensor denominator = at::empty({kChunkElements}, options);
  at::Tensor clipped = at::empty({kChunkElements}, options);
  factor = at::empty({}, options);
  for (const ShardPiece &piece : shard.pieces)
    for (int64_t done = 0; done < piece.count; done += kChunkElements) {
      int64_t count = std::min(kChunkElements, piece.count - done);
      auto part = [&](const std::byte *base) {
        if (!base)
          return at::Tensor();
        std::byte *begin = const_cast<std::byte *>(base) + (piece.first + done) * elementBytes;
        return at::for_blob(begin, {count}).options(options).make_tensor();
      };
      chunks.push_back({part(shard.parameters),
                        part(shard.gradients),
                        {part(shard.state[0]), part(shard.state[1]), part(shard.state[2])},
                        decayed.narrow(0, 0, count),
                        denominator.narrow(0, 0, count),
                        clipped.narrow(0, 0, count)});
    }
}

/// As Python's `tensor.mul_(factor)`. C++'s mul_(Scalar) differs: CPU kernels round its factor to
/// the dtype of bf16 and fp16 tensors.
static at::Tensor &multiply(at::Tensor &tensor, double factor) {
  return tensor.mul_(at::native::wrapped_scalar_tensor(factor));
}

void TorchUpdate::sgd(Chunk &chunk, at::Tensor gradients, int64_t step, double learningRate) {
  if (optimizer.weight_decay != 0)
    gradients = at::add_out(chunk.decayed, gradients, chunk.parameters, optimizer.weight_decay);
  if (optimizer.momentum != 0) {
    if (step == 1)
      chunk.state[0].copy_(gradients);
    else
      multiply(chunk.state[0], optimizer.momentum).add_(gradients, 1 - optimizer.dampening);
    gradients = optimizer.options & FSDP_NESTEROV
                    ? at::add_out(chunk.denominator, gradients, chunk.state[0], optimizer.momentum)
                    : chunk.state[0];
  }
  chunk.parameters.add_(gradients, -learningRate);
}

void TorchUpdate::adam(Chunk &chunk, at::Tensor gradients, int64_t step, double learningRate) {
  if (optimizer.weight_decay != 0) {
    if (optimizer.kind == FSDP_ADAMW)
      multiply(chunk.parameters, 1 - learningRate * optimizer.weight_decay);
    else
      gradients = at::add_out(chunk.decayed, gradients, chunk.parameters, optimizer.weight_decay);
  }
  chunk.state[0].lerp_(gradients, 1 - optimizer.beta1);
  multiply(chunk.state[1], optimizer.beta2).addcmul_(gradients, gradients, 1 - optimizer.beta2);
  double time = static_cast<double>(step);
  double correction1 = 1 - std::pow(optimizer.beta1, time);
  double correction2 = 1 - std::pow(optimizer.beta2, time);
  const bool amsgrad = optimizer.options & FSDP_AMSGRAD;
  if (amsgrad)
    at::maximum_out(chunk.state[2], chunk.state[2], chunk.state[1]);
  at::sqrt_out(chunk.denominator, chunk.state[amsgrad ? 2 : 1]);
  chunk.denominator.div_(std::pow(correction2, 0.5)).add_(optimizer.eps);
  chunk.parameters.addcdiv_(chunk.state[0], chunk.denominator, -(learningRate / correction1));
}

template <typename T>
static double normPartOf(fsdp_norm_type type, const at::Tensor &tensor, int64_t shiftBytes) {
  const T *values = reinterpret_cast<const T *>(
      static_cast<const std::byte *>(tensor.const_data_ptr()) + shiftBytes);
  double part = 0;
  for (int64_t i = 0; i < tensor.numel(); ++i)
    part = joinNormParts(type, part, fsdp::rt::normPartOf(type, static_cast<double>(values[i])));
  return part;
}

double TorchUpdate::normPart(fsdp_norm_type type, const at::Tensor &gradients,
                             int64_t shiftBytes) const {
  switch (dtype) {
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
  for (Chunk &chunk : chunks)
    part = joinNormParts(type, part, normPart(type, chunk.gradients, shiftBytes));
  return part;
}

double TorchUpdate::run(int64_t step, double learningRate, const float *clipFactor) {
  if (clipFactor)
    factor.copy_(at::for_blob(const_cast<float *>(clipFactor), {})
                     .options(factor.options().dtype(at::kFloat))
                     .make_tensor());
  double sum = 0;
  for (Chunk &chunk : chunks) {
    sum += normPart(FSDP_NORM_2, chunk.gradients);
    at::Tensor gradients = chunk.gradients;
    if (clipFactor)
      gradients = at::mul_out(chunk.clipped, gradients, factor);
    if (optimizer.options & FSDP_MAXIMIZE)
      gradients = at::neg_out(chunk.clipped, gradients);
    if (optimizer.kind == FSDP_SGD)
      sgd(chunk, gradients, step, learningRate);
    else
      adam(chunk, gradients, step, learningRate);
  }
  return sum;
}

std::unique_ptr<ShardUpdate> fsdp::rt::makeTorchUpdate(const fsdp_optimizer &optimizer,
                                                       const ShardBuffers &shard) {
  return std::make_unique<TorchUpdate>(optimizer, shard);
}
