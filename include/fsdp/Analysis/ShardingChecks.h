//===- ShardingChecks.h - Checks of groups and collectives ------*- C++ -*-===//
//
// Shared by the verifiers of the phases after grouping. Each check diagnoses the first violation,
// with a note at the conflicting operation. The labels (S1, ...) are those of fsdp-verify-sharded.
//
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_SHARDINGCHECKS_H
#define FSDP_ANALYSIS_SHARDINGCHECKS_H

#include "fsdp/Analysis/Step.h"

namespace fsdp {

/// A mesh exists and every parameter is in exactly one group: S1; C7 of a captured module.
mlir::LogicalResult checkGroups(Step &step, llvm::StringRef label);

/// The operator mutates no argument: C3 of a captured module; S9 of later phases.
mlir::LogicalResult checkFunctional(aten::CallOp call, llvm::StringRef label);

/// S4, S5 and S7 of gradients: each group's gradients are reduced over all ranks and applied, once.
mlir::LogicalResult checkReductions(Step &step);

/// S1 to S9: all rules of a sharded step, which also hold in later phases.
mlir::LogicalResult checkSharded(Step &step);

} // namespace fsdp

#endif // FSDP_ANALYSIS_SHARDINGCHECKS_H
