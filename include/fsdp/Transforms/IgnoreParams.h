//===- IgnoreParams.h - Parameters that belong to no group -------*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_IGNOREPARAMS_H
#define FSDP_TRANSFORMS_IGNOREPARAMS_H

#include "fsdp/Analysis/Step.h"
#include "fsdp/Config/ShardingConfig.h"

namespace fsdp {

/// Turns the parameters that the file ignores (FSDP2's `ignored_params`) into buffers: whole on
/// every rank, neither gathered nor reduced. They must be frozen. Errors, with the file's line: a
/// pattern that matches no parameter, and a parameter that is trained or shared. `step` is
/// collected again.
llvm::Error ignoreParams(Step &step, const ShardingConfig &config);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_IGNOREPARAMS_H
