//===- RecomputeRegions.h - Activation checkpointing by module ---*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_RECOMPUTEREGIONS_H
#define FSDP_TRANSFORMS_RECOMPUTEREGIONS_H

#include "fsdp/Analysis/Step.h"
#include "fsdp/Config/ShardingConfig.h"

namespace fsdp {

/// Declares a region for each module in the file's `activation_checkpointing`. Errors, with the
/// file's line: a pattern that matches no module, and a module in two entries.
llvm::Error declareRecomputeRegions(Step &step, const ShardingConfig &config);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_RECOMPUTEREGIONS_H
