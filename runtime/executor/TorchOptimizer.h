//===- TorchOptimizer.h - torch.optim's operator sequences -------*- C++ -*-===//

#ifndef FSDP_RUNTIME_TORCHOPTIMIZER_H
#define FSDP_RUNTIME_TORCHOPTIMIZER_H

#include "executor/OptimizerUpdate.h"

#include <c10/core/Device.h>

namespace fsdp::rt {

/// The update of a shard of any floating dtype by the operators that torch.optim's single-tensor
/// implementation calls, in its order. Slower than the fused loops; their reference in tests. The
/// shard lies in memory of `device`; only on a CPU the sum of squares is computed, else it is 0.
std::unique_ptr<ShardUpdate> makeTorchUpdate(const fsdp_optimizer &optimizer,
                                             const ShardBuffers &shard,
                                             c10::Device device = c10::Device(c10::kCPU));

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_TORCHOPTIMIZER_H
