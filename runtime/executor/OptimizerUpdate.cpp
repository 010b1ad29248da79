//===- OptimizerUpdate.cpp - Update a shard in one pass --------------------===//

#include "executor/OptimizerUpdate.h"
#include "cpu/FusedKernels.h"
#include "cpu/VectorAdam.h"
#include "executor/TorchOptimizer.h"
#include "plan/NormType.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/sqrt.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace fsdp::rt;

namespace {
/// Elements that a thread works on at a time: what it touches stays in the second-level cache.
constexpr int64_t kChunkElements = 8192;
/// Of which vectorAdam() takes multiples.
constexpr int64_t kVectorElements = 16;

/// Splits fp32 shards in chunks and joins their parts in the norm in order, whatever the threads.
class FusedUpdate : public ShardUpdate {
public:
  FusedUpdate(const fsdp_optimizer &optimizer, const ShardBuffers &shard)
      : optimizer(optimizer), elements(shard.elements),
        parameters(reinterpret_cast<float *>(shard.parameters)), gradients(shard.gradients),
        gradientDtype(shard.gradientDtype),
        state{reinterpret_cast<float *>(shard.state[0]), reinterpret_cast<float *>(shard.state[1]),
              reinterpret_cast<float *>(shard.state[2])},
        normParts((elements + kChunkElements - 1) / kChunkElements) {
    if (shard.gradientDtype != FSDP_F32)
      widened.resize(at::get_num_threads() * kChunkElements);
  }

  double partialNormOf(fsdp_norm_type type, int64_t shiftBytes) final {
    const FusedKernels &kernels = fusedKernels();
    auto part = type == FSDP_NORM_2   ? kernels.squareSum
                : type == FSDP_NORM_1 ? kernels.absoluteSum
                                      : kernels.largest;
    return forChunks(
        [&](int64_t first, int64_t count) {
          return part(gradientsOf(first, count, shiftBytes), count);
        },
        type);
  }

protected:
  /// By what gradients are multiplied.
  float scaleOf(const float *clipFactor) const {
    const float factor = clipFactor ? *clipFactor : 1;
    return optimizer.options & FSDP_MAXIMIZE ? -factor : factor;
  }

  /// The gradients of a chunk, in fp32; in memory of the calling thread if they are not.
  const float *gradientsOf(int64_t first, int64_t count, int64_t shiftBytes = 0) {
    const std::byte *const from = gradients + shiftBytes;
    if (widened.empty())
      return reinterpret_cast<const float *>(from) + first;
    float *values = widened.data() + at::get_thread_num() * kChunkElements;
    auto widen = [&](const auto *narrow) {
      std::copy(narrow + first, narrow + first + count, values);
    };
    if (gradientDtype == FSDP_BF16)
      widen(reinterpret_cast<const c10::BFloat16 *>(from));
    else
      widen(reinterpret_cast<const c10::Half *>(from));
    return values;
  }

  /// Calls chunk(first, count) -> part in the norm for every chunk.
  template <typename Chunk> double forChunks(Chunk chunk, fsdp_norm_type type = FSDP_NORM_2) {
    at::parallel_for(0, static_cast<int64_t>(normParts.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t first = i * kChunkElements;
        normParts[i] = chunk(first, std::min(kChunkElements, elements - first));
      }
    });
    double total = 0;
    for (double part : normParts)
      total = joinNormParts(type, total, part);
    return total;
  }

  const fsdp_optimizer optimizer;
  const int64_t elements;
  float *const parameters;
  const std::byte *const gradients;
  const fsdp_dtype gradientDtype;
  float *const state[FSDP_MAX_STATES];
  std::vector<float> widened;    // a chunk by thread, of gradients that are not fp32
  std::vector<double> normParts; // by chunk
};

class FusedSgd final : public FusedUpdate {
public:
  using FusedUpdate::FusedUpdate;

  double run(int64_t step, double learningRate, const float *clipFactor) override {
    const float clip = scaleOf(clipFactor);
    SgdScalars scalars{.negativeLearningRate = static_cast<float>(-learningRate),
                       .weightDecay = static_cast<float>(optimizer.weight_decay),
                       .momentum = static_cast<float>(optimizer.momentum),
                       .hasMomentum = optimizer.momentum != 0,
                       .firstStep = step == 1,
                       .nesterov = (optimizer.options & FSDP_NESTEROV) != 0,
                       .gradientWeight = static_cast<float>(1 - optimizer.dampening)};
    const FusedKernels &kernels = fusedKernels();
    return forChunks([&](int64_t first, int64_t count) {
      return kernels.sgd(parameters + first, gradientsOf(first, count),
                         state[0] ? state[0] + first : nullptr, count, scalars, clip);
    });
  }
};

class FusedAdam final : public FusedUpdate {
public:
  FusedAdam(const fsdp_optimizer &optimizer, const ShardBuffers &shard)
      : FusedUpdate(optimizer, shard), roots(at::get_num_threads()) {
    for (Root &root : roots) {
      root.values.resize(kChunkElements);
      root.whole = at::from_blob(root.values.data(), {kChunkElements}, at::kFloat);
      root.rest = at::from_blob(root.values.data(), {elements % kChunkElements}, at::kFloat);
      root.vector = at::from_blob(root.values.data(), {kVectorElements}, at::kFloat);
    }
  }

  double run(int64_t step, double learningRate, const float *clipFactor) override {
    const float clip = scaleOf(clipFactor);
    // torch's arithmetic of scalars, in doubles.
    double time = static_cast<double>(step);
    double correction1 = 1 - std::pow(optimizer.beta1, time);
    double correction2 = 1 - std::pow(optimizer.beta2, time);
    bool decoupled = optimizer.kind == FSDP_ADAMW;
    double decay = optimizer.weight_decay;
    AdamScalars scalars{
        .decay = static_cast<float>(decoupled && decay != 0 ? 1 - learningRate * decay : 1),
        .weightDecay = static_cast<float>(decoupled ? 0 : decay),
        .lerpWeight = static_cast<float>(1 - optimizer.beta1),
        .beta2 = static_cast<float>(optimizer.beta2),
        .oneMinusBeta2 = static_cast<float>(1 - optimizer.beta2),
        .sqrtCorrection2 = static_cast<float>(std::pow(correction2, 0.5)),
        .eps = static_cast<float>(optimizer.eps),
        .negativeStepSize = static_cast<float>(-(learningRate / correction1))};
    const FusedKernels &kernels = fusedKernels();
    return forChunks([&](int64_t first, int64_t count) {
      Root &root = roots.at(at::get_thread_num());
      const float *wide = gradientsOf(first, count);
      if (!state[2] && isVectorAdamExact() && count % kVectorElements == 0)
        return vectorAdam(parameters + first, wide, state[0] + first, state[1] + first, count,
                          scalars, clip, root.vector);
      double squares =
          kernels.adamMoments(parameters + first, wide, state[0] + first, state[1] + first,
                              root.values.data(), count, scalars, clip);
      if (state[2])
        takeLargest(state[2] + first, root.values.data(), count);
      // torch's square root is not correctly rounded everywhere; take the same one.
      at::Tensor &tensor = count == kChunkElements ? root.whole : root.rest;
      at::sqrt_(tensor);
      kernels.adamParameters(parameters + first, state[0] + first, root.values.data(), count,
                             scalars);
      return squares;
    });
  }

private:
  /// torch.maximum of both, in both.
  static void takeLargest(float *largest, float *values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      float next = std::max(largest[i], values[i]); // the first, if one is a NaN
      largest[i] = values[i] = std::isnan(values[i]) ? values[i] : next;
    }
  }

  struct Root {
    std::vector<float> values;
    at::Tensor whole, rest, vector; // of a whole chunk, of the last one, of kVectorElements
  };
  std::vector<Root> roots; // by thread
};

/// Casts the shard behind each update.
class CopyingUpdate final : public ShardUpdate {
public:
  CopyingUpdate(std::unique_ptr<ShardUpdate> update, const ShardBuffers &shard)
      : update(std::move(update)),
        parameters(at::from_blob(shard.parameters, {shard.elements},
                                 static_cast<at::ScalarType>(shard.dtype))),
        gathered(at::from_blob(shard.gathered, {shard.elements},
                               static_cast<at::ScalarType>(shard.gatheredDtype))) {}

  double run(int64_t step, double learningRate, const float *clipFactor) override {
    double squares = update->run(step, learningRate, clipFactor);
    writeGathered();
    return squares;
  }
  double partialNormOf(fsdp_norm_type type, int64_t shiftBytes) override {
    return update->partialNormOf(type, shiftBytes);
  }
  void writeGathered() override { gathered.copy_(parameters); }

private:
  std::unique_ptr<ShardUpdate> update;
  const at::Tensor parameters;
  at::Tensor gathered;
};
} // namespace

float fsdp::rt::clipFactor(fsdp_norm_type type, double total, float maxNorm) {
  const auto norm = static_cast<float>(normOfPart(type, total));
  const float factor = 1 / (norm + 1e-6f) * maxNorm;
  return factor > 1 ? 1 : factor; // unlike std::min, keeps a NaN
}

void fsdp::rt::writeGatheredCopy(const ShardBuffers &shard) {
  auto tensorOf = [&](std::byte *values, fsdp_dtype dtype) {
    return at::from_blob(values, {shard.elements}, static_cast<at::ScalarType>(dtype));
  };
  tensorOf(shard.gathered, shard.gatheredDtype).copy_(tensorOf(shard.parameters, shard.dtype));
}

static std::unique_ptr<ShardUpdate> makeFusedUpdate(const fsdp_optimizer &optimizer,
                                                    const ShardBuffers &shard) {
  if (optimizer.kind == FSDP_SGD)
    return std::make_unique<FusedSgd>(optimizer, shard);
  return std::make_unique<FusedAdam>(optimizer, shard);
}

std::unique_ptr<ShardUpdate> fsdp::rt::makeShardUpdate(const fsdp_optimizer &optimizer,
                                                       const ShardBuffers &shard) {
  if (shard.dtype != FSDP_F32)
    return makeTorchUpdate(optimizer, shard);
  auto update = makeFusedUpdate(optimizer, shard);
  if (shard.gathered)
    update = std::make_unique<CopyingUpdate>(std::move(update), shard);
  return update;
}
