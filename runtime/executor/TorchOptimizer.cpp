//===- TorchOptimizer.cpp - torch.optim's operator sequences ---------------===//

#include "executor/TorchOptimizer.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/sqrt.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace fsdp::rt;

namespace {
/// Works chunk by chunk, so that what the operators write in between stays in the cache and needs
/// little memory, made once.
class TorchUpdate final : public ShardUpdate {
public:
  TorchUpdate(const fsdp_optimizer &optimizer, const ShardBuffers &shard);
  double run(int64_t step, double learningRate) override;

private:
  static constexpr int64_t kChunkElements = 8192;

  struct Chunk {
    at::Tensor parameters, gradients, state[2];
    at::Tensor decayed, denominator; // temporaries, shared by chunks of one size
  };
  void sgd(Chunk &chunk, int64_t step, double learningRate);
  void adam(Chunk &chunk, int64_t step, double learningRate);

  const fsdp_optimizer optimizer;
  std::vector<Chunk> chunks;
};
} // namespace

TorchUpdate::TorchUpdate(const fsdp_optimizer &optimizer, const ShardBuffers &shard)
    : optimizer(optimizer) {
  auto dtype = static_cast<at::ScalarType>(shard.dtype);
  int64_t elementBytes = static_cast<int64_t>(c10::elementSize(dtype));
  at::Tensor decayed = at::empty({std::min(kChunkElements, shard.elements)}, dtype);
  at::Tensor denominator = at::empty(decayed.sizes(), dtype);
  for (int64_t first = 0; first < shard.elements; first += kChunkElements) {
    int64_t count = std::min(kChunkElements, shard.elements - first);
    auto piece = [&](const std::byte *base) {
      return base ? at::from_blob(const_cast<std::byte *>(base) + first * elementBytes, {count},
                                  dtype)
                  : at::Tensor();
    };
    chunks.push_back({piece(shard.parameters),
                      piece(shard.gradients),
                      {piece(shard.state[0]), piece(shard.state[1])},
                      decayed.narrow(0, 0, count),
                      denominator.narrow(0, 0, count)});
  }
}

void TorchUpdate::sgd(Chunk &chunk, int64_t step, double learningRate) {
  at::Tensor gradients = chunk.gradients;
  if (optimizer.weight_decay != 0)
    gradients = at::add_out(chunk.decayed, gradients, chunk.parameters, optimizer.weight_decay);
  if (optimizer.momentum != 0) {
    if (step == 1)
      chunk.state[0].copy_(gradients);
    else
      chunk.state[0].mul_(optimizer.momentum).add_(gradients, 1.0);
    gradients = chunk.state[0];
  }
  chunk.parameters.add_(gradients, -learningRate);
}

void TorchUpdate::adam(Chunk &chunk, int64_t step, double learningRate) {
  at::Tensor gradients = chunk.gradients;
  if (optimizer.weight_decay != 0) {
    if (optimizer.kind == FSDP_ADAMW)
      chunk.parameters.mul_(1 - learningRate * optimizer.weight_decay);
    else
      gradients = at::add_out(chunk.decayed, gradients, chunk.parameters, optimizer.weight_decay);
  }
  chunk.state[0].lerp_(gradients, 1 - optimizer.beta1);
  chunk.state[1].mul_(optimizer.beta2).addcmul_(gradients, gradients, 1 - optimizer.beta2);
  double time = static_cast<double>(step);
  double correction1 = 1 - std::pow(optimizer.beta1, time);
  double correction2 = 1 - std::pow(optimizer.beta2, time);
  at::sqrt_out(chunk.denominator, chunk.state[1]);
  chunk.denominator.div_(std::pow(correction2, 0.5)).add_(optimizer.eps);
  chunk.parameters.addcdiv_(chunk.state[0], chunk.denominator, -(learningRate / correction1));
}

double TorchUpdate::run(int64_t step, double learningRate) {
  double squares = 0;
  for (Chunk &chunk : chunks) {
    at::Tensor gradients = chunk.gradients.to(at::kDouble);
    const double *values = gradients.const_data_ptr<double>();
    for (int64_t i = 0; i < gradients.numel(); ++i)
      squares += values[i] * values[i];
    if (optimizer.kind == FSDP_SGD)
      sgd(chunk, step, learningRate);
    else
      adam(chunk, step, learningRate);
  }
  return squares;
}

std::unique_ptr<ShardUpdate> fsdp::rt::makeTorchUpdate(const fsdp_optimizer &optimizer,
                                                       const ShardBuffers &shard) {
  return std::make_unique<TorchUpdate>(optimizer, shard);
}
