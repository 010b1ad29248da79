//===- ReplaceOptimizer.h - The optimizer of the file ------------*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_REPLACEOPTIMIZER_H
#define FSDP_TRANSFORMS_REPLACEOPTIMIZER_H

#include "fsdp/Analysis/Step.h"
#include "fsdp/Config/ShardingConfig.h"

namespace fsdp {

/// Replaces the captured optimizer and parameter groups by those of the file. Values that the file
/// omits are kept, unless it names another kind of optimizer, which begins with torch's defaults
/// and without groups. A parameter belongs to the first entry of `groups` that matches one of its
/// names. Errors, with the file's line: values that the kind does not have, and patterns that match
/// no parameter.
llvm::Error replaceOptimizer(Step &step, const ShardingConfig &config);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_REPLACEOPTIMIZER_H
