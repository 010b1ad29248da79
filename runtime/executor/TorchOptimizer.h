//===- TorchOptimizer.h - torch.optim's operator sequences -------*- C++ -*-===//

#ifndef FSDP_RUNTIME_TORCHOPTIMIZER_H
#define FSDP_RUNTIME_TORCHOPTIMIZER_H

#include "executor/OptimizerUpdate.h"

namespace fsdp::rt {

/// The update of a shard of any floating dtype, on a CPU, by the operators that torch.optim's
/// single-tensor implementation calls, in its order. State of another dtype than the parameters is
/// updated as by the fused loops: in fp32, rounded where it is stored. Slower than these loops,
/// whose tests use it as reference.
std::unique_ptr<ShardUpdate> makeTorchUpdate(const fsdp_optimizer &optimizer,
                                             const ShardBuffers &shard);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_TORCHOPTIMIZER_H
