//===- OptimizerUpdate.cpp - Update a shard in one pass --------------------===//

#include "executor/OptimizerUpdate.h"
#include "DType.h"
#include "cpu/FusedKernels.h"
#include "cpu/VectorAdam.h"
#include "cpu/Widen.h"
#include "executor/AveragingUpdate.h"
#include "executor/OptimizerSteps.h"
#include "executor/TorchOptimizer.h"
#include "plan/NormType.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sqrt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

using namespace fsdp::rt;

namespace {
/// Elements that a thread processes at a time: their data stay in the second-level cache.
constexpr int64_t kChunkElements = 8192;
/// vectorAdam() takes multiples of this many elements.
constexpr int64_t kVectorElements = 16;

/// Splits shards into chunks, which threads update in fp32, and joins the chunks' parts in the norm
/// in a fixed order, for any number of threads.
class FusedUpdate : public ShardUpdate {
public:
  FusedUpdate(const fsdp_optimizer &optimizer, const ShardBuffers &shard)
      : optimizer(optimizer), elements(shard.elements), steps(optimizer),
        parameters{shard.parameters, shard.dtype},
        gradients{const_cast<std::byte *>(shard.gradients), shard.gradientDtype},
        clipValue(static_cast<float>(clipValueIn(shard.dtype, optimizer))),
        normParts((elements + kChunkElements - 1) / kChunkElements) {
    for (unsigned i = 0; i < FSDP_MAX_STATES; ++i)
      if (shard.state[i])
        state[i] = {shard.state[i], shard.stateDtype[i]};
    for (Values *values : {&parameters, &gradients, &state[0], &state[1], &state[2]})
      if (values->dtype != FSDP_F32)
        addBuffer(*values);
    if (clipsValues() || parameters.dtype != FSDP_F32)
      addBuffer(gradients);
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
  /// The factor of the gradients.
  float withSign(float factor) const {
    return optimizer.options & FSDP_MAXIMIZE ? -factor : factor;
  }

  /// Values of a shard, and the index of each thread's buffer for a chunk of them in fp32.
  struct Values {
    std::byte *begin = nullptr;
    fsdp_dtype dtype = FSDP_F32;
    std::optional<size_t> buffer = {};

    std::byte *at(int64_t first) const {
      return begin + first * static_cast<int64_t>(elementBytes(dtype));
    }
  };
  /// The values of a chunk that an update changes, in fp32.
  struct Chunk {
    int64_t first, count;
    float *parameters;
    std::array<float *, FSDP_MAX_STATES> state;
  };

  /// Gives the values a buffer if they have none.
  void addBuffer(Values &values) {
    if (values.buffer)
      return;
    values.buffer = numBuffers++;
    wide.resize(at::get_num_threads() * numBuffers * kChunkElements);
  }
  /// The calling thread's buffer.
  float *bufferOf(const Values &values) {
    return wide.data() + (at::get_thread_num() * numBuffers + *values.buffer) * kChunkElements;
  }
  /// A chunk of values in fp32: in place, or, if they have another dtype, in a buffer of the
  /// calling thread. Null if there are none.
  float *widened(const Values &values, int64_t first, int64_t count, int64_t shiftBytes = 0) {
    if (!values.begin)
      return nullptr;
    std::byte *from = values.at(first) + shiftBytes;
    if (values.dtype == FSDP_F32)
      return reinterpret_cast<float *>(from);
    float *to = bufferOf(values);
    widen(from, values.dtype, to, static_cast<size_t>(count));
    return to;
  }
  const float *gradientsOf(int64_t first, int64_t count, int64_t shiftBytes = 0) {
    return widened(gradients, first, count, shiftBytes);
  }
  Chunk load(int64_t first, int64_t count) {
    return {first,
            count,
            widened(parameters, first, count),
            {widened(state[0], first, count), widened(state[1], first, count),
             widened(state[2], first, count)}};
  }
  void store(const Chunk &chunk) const {
    auto narrowed = [&](const Values &values, const float *from) {
      if (values.dtype != FSDP_F32)
        narrow(from, values.at(chunk.first), values.dtype, static_cast<size_t>(chunk.count));
    };
    narrowed(parameters, chunk.parameters);
    for (unsigned i = 0; i < FSDP_MAX_STATES; ++i)
      narrowed(state[i], chunk.state[i]);
  }

  /// Calls update(chunk, gradients, scale) for every chunk, with the gradients' factor, and returns
  /// the sum of the squares of the gradients, which update() returns.
  template <typename Update> double updateChunks(const GradientFactors &factors, Update update) {
    // torch multiplies gradients in the parameters' dtype, by a clip factor of that dtype.
    const bool isNarrow = parameters.dtype != FSDP_F32;
    const bool isClippedNarrow = factors.clip && isNarrow;
    const float scale = withSign(isClippedNarrow ? 1 : factors.clip.value_or(1));
    if (factors.inverseScale) // allocates in the first step only
      addBuffer(gradients);
    return forChunks([&](int64_t first, int64_t count) {
      Chunk chunk = load(first, count);
      double squares = 0;
      if (isClippedNarrow || factors.inverseScale || clipsValues()) {
        const float *read = gradientsOf(first, count);
        squares = fusedKernels().squareSum(read, count);
        float *changed = bufferOf(gradients);
        if (factors.inverseScale)
          read = multiply(read, changed, count, *factors.inverseScale, isNarrow);
        if (isClippedNarrow)
          read = multiply(read, changed, count, rounded(*factors.clip), isNarrow);
        if (clipsValues())
          read = clipValues(read, changed, count);
        update(chunk, read, scale);
      } else {
        squares = update(chunk, gradientsOf(first, count), scale);
      }
      store(chunk);
      return squares;
    });
  }

  /// Calls chunk(first, count), which returns a part in the norm, for every chunk.
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
  OptimizerSteps steps;

private:
  /// `value` rounded to the parameters' dtype.
  float rounded(float value) const {
    std::array<std::byte, sizeof(float)> narrowed;
    narrow(&value, narrowed.data(), parameters.dtype, 1);
    widen(narrowed.data(), parameters.dtype, &value, 1);
    return value;
  }

  /// Multiplies gradients and, if `isNarrow`, rounds the products to the parameters' dtype. Returns
  /// the products.
  float *multiply(const float *values, float *products, int64_t count, float factor,
                  bool isNarrow) const {
    for (int64_t i = 0; i < count; ++i)
      products[i] = values[i] * factor;
    if (!isNarrow)
      return products;
    std::array<std::byte, 64 * sizeof(float)> part;
    for (int64_t i = 0; i < count; i += 64) {
      const auto length = static_cast<size_t>(std::min<int64_t>(64, count - i));
      narrow(products + i, part.data(), parameters.dtype, length);
      widen(part.data(), parameters.dtype, products + i, length);
    }
    return products;
  }

  bool clipsValues() const { return optimizer.clip_grad_value != 0; }
  /// Clips each element, and returns the results. A NaN stays a NaN.
  float *clipValues(const float *values, float *clipped, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) {
      const float value = values[i];
      clipped[i] = value < -clipValue ? -clipValue : value > clipValue ? clipValue : value;
    }
    return clipped;
  }

  Values parameters, gradients, state[FSDP_MAX_STATES];
  const float clipValue; // of each element, if clipsValues(); may round to 0
  size_t numBuffers = 0;
  std::vector<float> wide;       // buffers of a chunk by thread
  std::vector<double> normParts; // by chunk
};

class FusedSgd final : public FusedUpdate {
public:
  using FusedUpdate::FusedUpdate;

  double run(int64_t step, double learningRate, const GradientFactors &factors) override {
    const SgdScalars scalars = steps.at(step, learningRate).sgd;
    const FusedKernels &kernels = fusedKernels();
    return updateChunks(factors, [&](Chunk &chunk, const float *gradients, float scale) {
      return kernels.sgd(chunk.parameters, gradients, chunk.state[0], chunk.count, scalars, scale);
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

  double run(int64_t step, double learningRate, const GradientFactors &factors) override {
    const AdamScalars scalars = steps.at(step, learningRate).adam;
    const FusedKernels &kernels = fusedKernels();
    return updateChunks(factors, [&](Chunk &chunk, const float *gradients, float scale) {
      auto [moment1, moment2, largest] = chunk.state;
      Root &root = roots.at(at::get_thread_num());
      if (!largest && isVectorAdamExact() && chunk.count % kVectorElements == 0)
        return vectorAdam(chunk.parameters, gradients, moment1, moment2, chunk.count, scalars,
                          scale, root.vector);
      double squares = kernels.adamMoments(chunk.parameters, gradients, moment1, moment2,
                                           root.values.data(), chunk.count, scalars, scale);
      if (largest)
        takeLargest(largest, root.values.data(), chunk.count);
      // torch's own square root, since it is not correctly rounded on all machines.
      at::Tensor &tensor = chunk.count == kChunkElements ? root.whole : root.rest;
      at::sqrt_(tensor);
      kernels.adamParameters(chunk.parameters, moment1, root.values.data(), chunk.count, scalars);
      return squares;
    });
  }

private:
  /// Sets both operands to torch.maximum of both.
  static void takeLargest(float *largest, float *values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      float next = std::max(largest[i], values[i]); // std::max returns the first if one is a NaN
      largest[i] = values[i] = std::isnan(values[i]) ? values[i] : next;
    }
  }

  struct Root {
    std::vector<float> values;
    at::Tensor whole, rest, vector; // of a whole chunk, of the last one, of kVectorElements
  };
  std::vector<Root> roots; // by thread
};

/// Casts the shard to its copy for gathers after each update.
class CopyingUpdate final : public ShardUpdate {
public:
  CopyingUpdate(std::unique_ptr<ShardUpdate> update, const ShardBuffers &shard)
      : update(std::move(update)),
        parameters(at::from_blob(shard.parameters, {shard.elements},
                                 static_cast<at::ScalarType>(shard.dtype))),
        gathered(at::from_blob(shard.gathered, {shard.elements},
                               static_cast<at::ScalarType>(shard.gatheredDtype))) {}

  double run(int64_t step, double learningRate, const GradientFactors &factors) override {
    double squares = update->run(step, learningRate, factors);
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

bool fsdp::rt::hasOwnStateDtype(const ShardBuffers &shard) {
  for (unsigned i = 0; i < FSDP_MAX_STATES; ++i)
    if (shard.state[i] && shard.stateDtype[i] != shard.dtype)
      return true;
  return false;
}

float fsdp::rt::clipFactor(fsdp_norm_type type, double total, float maxNorm, float inverseScale) {
  const auto norm = static_cast<float>(normOfPart(type, total) * inverseScale);
  const float factor = 1 / (norm + 1e-6f) * maxNorm;
  return factor > 1 ? 1 : factor; // unlike std::min, keeps a NaN
}

double fsdp::rt::clipValueIn(fsdp_dtype dtype, const fsdp_optimizer &optimizer) {
  return at::scalar_tensor(optimizer.clip_grad_value, at::kDouble)
      .to(static_cast<at::ScalarType>(dtype))
      .to(at::kDouble)
      .item<double>();
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

static std::unique_ptr<ShardUpdate> makeUpdate(const fsdp_optimizer &optimizer,
                                               const ShardBuffers &shard) {
  const bool isFused = optimizer.kind <= FSDP_ADAMW;
  if (shard.dtype != FSDP_F32 && !(isFused && hasOwnStateDtype(shard)))
    return makeTorchUpdate(optimizer, shard);
  auto update = isFused ? makeFusedUpdate(optimizer, shard) : makeTorchUpdate(optimizer, shard);
  if (shard.gathered)
    update = std::make_unique<CopyingUpdate>(std::move(update), shard);
  return update;
}

std::unique_ptr<ShardUpdate> fsdp::rt::makeShardUpdate(const fsdp_optimizer &optimizer,
                                                       const ShardBuffers &shard) {
  std::unique_ptr<ShardUpdate> update = makeUpdate(optimizer, shard);
  return shard.average ? makeAveragingUpdate(std::move(update), optimizer.ema_decay, shard)
                       : std::move(update);
}
