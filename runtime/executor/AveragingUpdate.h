//===- AveragingUpdate.h - The moving average of a shard -----------*- C++ -*-===//
//
// torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn(decay), of a shard on a CPU: the
// average begins with the parameters of the first update; after each other update it moves towards
// the parameters by the share 1 - decay (Tensor.lerp_).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_AVERAGINGUPDATE_H
#define FSDP_RUNTIME_AVERAGINGUPDATE_H

#include "executor/OptimizerUpdate.h"

namespace fsdp::rt {

/// `update`, followed by that of the shard's average. If the average has the parameters' dtype, its
/// bits are torch's; else it is computed in fp32, and rounded when it is stored.
std::unique_ptr<ShardUpdate> makeAveragingUpdate(std::unique_ptr<ShardUpdate> update, double decay,
                                                 const ShardBuffers &shard);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_AVERAGINGUPDATE_H
