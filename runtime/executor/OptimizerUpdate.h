//===- OptimizerUpdate.h - Update a shard in one pass ------------*- C++ -*-===//
//
// The update of torch.optim's single-tensor optimizers on a flat shard. sgd, adam and adamw have
// fused loops for fp32 shards, whose results equal torch's operator sequence bit for bit (each
// multiply-add that torch's kernels fuse is fused here, and no other; square roots are torch's).
// Their shards of another dtype than the state take these loops, too: chunks of both are widened to
// fp32 first, and rounded once, to the nearest even, where they are stored. If their shards and
// state have the same dtype, and it is not fp32, torch's operator sequence itself runs, parameter
// by parameter: in these dtypes torch's kernels round the last elements of a tensor, which do not
// fill a vector, differently. The other optimizers always run torch's operator sequence.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_OPTIMIZERUPDATE_H
#define FSDP_RUNTIME_OPTIMIZERUPDATE_H

#include "fsdp/Plan/Abi.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace fsdp::rt {

/// Elements [first, first + count) of a shard: its part of one parameter, which `optimizer` of the
/// plan updates (fsdp_parameter).
struct ShardPiece {
  int64_t first, count;
  uint32_t optimizer = 0;
};

/// One rank's part of a group: `elements` of `dtype` each (gradients of `gradientDtype`), of which
/// `pieces` belong to parameters and the rest is padding. `state` as in fsdp_group; an unused state
/// is null. `average`: the moving average of the parameters; null if there is none. `gathered`: the
/// parameters' copy in `gatheredDtype`; null if the parameters themselves are gathered. If that
/// copy or the gradients have another dtype than `dtype`, `dtype` is fp32 and the other dtype is
/// narrower. `stateDtype` is as in fsdp_group. The memory belongs to the caller.
struct ShardBuffers {
  fsdp_dtype dtype;
  int64_t elements;
  std::byte *parameters;
  const std::byte *gradients;
  std::byte *state[FSDP_MAX_STATES];
  std::vector<ShardPiece> pieces;
  fsdp_dtype gradientDtype = dtype;
  std::byte *gathered = nullptr;
  fsdp_dtype gatheredDtype = dtype;
  std::array<fsdp_dtype, FSDP_MAX_STATES> stateDtype = {dtype, dtype, dtype};
  std::byte *average = nullptr;
  fsdp_dtype averageDtype = dtype;
  bool countsInNorm = true; // false: another rank counts the gradients
};

/// True if a state has another dtype than the parameters.
bool hasOwnStateDtype(const ShardBuffers &shard);

/// What an update multiplies gradients by, in the parameters' dtype, one after the other;
/// absent: 1.
struct GradientFactors {
  std::optional<float> clip = {}, inverseScale = {};
};

/// 1 / a loss scale, as torch.amp.GradScaler computes it.
inline float inverseOfScale(float scale) {
  return static_cast<float>(1 / static_cast<double>(scale));
}

/// Updates one shard, step after step.
class ShardUpdate {
public:
  virtual ~ShardUpdate() = default;
  /// Applies update number `step` (from 1) with the gradients times these factors. Returns the sum
  /// of the squares of the gradients without any.
  virtual double run(int64_t step, double learningRate, const GradientFactors &factors) = 0;
  /// The part of the gradients in a norm (plan/NormType.h); for norm 2 it equals run()'s result.
  double partialNorm(fsdp_norm_type type) { return partialNormOf(type, 0); }
  /// The same for gradients that are `shiftBytes` after the address from which run() reads them.
  virtual double partialNormOf(fsdp_norm_type type, int64_t shiftBytes) = 0;
  /// Writes the copy for gathers, if there is one; run() does so, too.
  virtual void writeGathered() {}
};

/// min(1, maxNorm / (norm + 1e-6)) of the norm whose only part is `total`, as
/// torch.nn.utils.clip_grad_norm_ computes it in fp32, as a reciprocal times maxNorm. A NaN stays a
/// NaN. torch's norm is the fp32 norm of the tensors' fp32 norms: norm inf is the same, the other
/// norms differ by that rounding.
/// `inverseScale`: multiplies the norm before.
float clipFactor(fsdp_norm_type type, double total, float maxNorm, float inverseScale = 1);

/// The value to which each element of gradients of `dtype` is clipped, rounded as torch.clamp
/// rounds it (torch.nn.utils.clip_grad_value_), for an optimizer that clips so. May round to 0.
double clipValueIn(fsdp_dtype dtype, const fsdp_optimizer &optimizer);

/// Casts a shard on a CPU to its copy for gathers.
void writeGatheredCopy(const ShardBuffers &shard);

std::unique_ptr<ShardUpdate> makeShardUpdate(const fsdp_optimizer &optimizer,
                                             const ShardBuffers &shard);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_OPTIMIZERUPDATE_H
