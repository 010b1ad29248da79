//===- AveragingUpdate.cpp - The moving average of a shard -------------------===//

#include "executor/AveragingUpdate.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

using namespace fsdp::rt;

namespace {
/// Works chunk by chunk, which threads share. Only the last chunk of a piece is not a multiple of
/// every vector's length, as in an operator on the whole piece.
class AveragingUpdate final : public ShardUpdate {
public:
  AveragingUpdate(std::unique_ptr<ShardUpdate> update, double decay, const ShardBuffers &shard)
      : update(std::move(update)), weight(1 - decay) {
    for (const ShardPiece &piece : shard.pieces)
      for (int64_t done = 0; done < piece.count; done += kChunkElements) {
        const int64_t count = std::min(kChunkElements, piece.count - done);
        auto part = [&](std::byte *base, fsdp_dtype dtype) {
          const auto type = static_cast<at::ScalarType>(dtype);
          base += (piece.first + done) * static_cast<int64_t>(c10::elementSize(type));
          return at::from_blob(base, {count}, type);
        };
        chunks.push_back(
            {part(shard.parameters, shard.dtype), part(shard.average, shard.averageDtype)});
      }
    auto makeWide = [] { return at::empty({kChunkElements}, at::kFloat); };
    if (shard.averageDtype != shard.dtype)
      for (int thread = 0; thread < at::get_num_threads(); ++thread)
        buffers.push_back({makeWide(), makeWide()});
  }

  double run(int64_t step, double learningRate, const GradientFactors &factors) override {
    const double squares = update->run(step, learningRate, factors);
    at::parallel_for(0, static_cast<int64_t>(chunks.size()), 1, [&](int64_t begin, int64_t end) {
      at::AutoDispatchBelowADInplaceOrView belowAutograd; // of this thread
      for (int64_t i = begin; i < end; ++i)
        take(step, chunks[i]);
    });
    return squares;
  }
  double partialNormOf(fsdp_norm_type type, int64_t shiftBytes) override {
    return update->partialNormOf(type, shiftBytes);
  }
  void writeGathered() override { update->writeGathered(); }

private:
  static constexpr int64_t kChunkElements = 8192;

  struct Chunk {
    at::Tensor parameters, average;
  };

  void take(int64_t step, Chunk &chunk) const {
    if (step == 1) {
      chunk.average.copy_(chunk.parameters);
    } else if (buffers.empty()) {
      chunk.average.lerp_(chunk.parameters, weight);
    } else {
      const Chunk &wide = buffers.at(at::get_thread_num());
      const int64_t count = chunk.parameters.numel();
      at::Tensor parameters = wide.parameters.narrow(0, 0, count).copy_(chunk.parameters);
      at::Tensor average = wide.average.narrow(0, 0, count).copy_(chunk.average);
      chunk.average.copy_(average.lerp_(parameters, weight));
    }
  }

  std::unique_ptr<ShardUpdate> update;
  const double weight; // of the parameters
  std::vector<Chunk> chunks;
  std::vector<Chunk> buffers; // in fp32, by thread; empty: both dtypes are one
};
} // namespace

std::unique_ptr<ShardUpdate> fsdp::rt::makeAveragingUpdate(std::unique_ptr<ShardUpdate> update,
                                                           double decay,
                                                           const ShardBuffers &shard) {
  return std::make_unique<AveragingUpdate>(std::move(update), decay, shard);
}
