//===- ShardingChecks.h - What must hold of groups and collectives -*- C++ -*-===//
//
// Shared by the verifiers of the phases after grouping. Each check diagnoses the first violation,
// with a note at the place that it conflicts with. The labels (S1, ...) are those of
// fsdp-verify-sharded.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_SHARDINGCHECKS_H
#define FSDP_ANALYSIS_SHARDINGCHECKS_H

#include "fsdp/Analysis/Step.h"

namespace fsdp {

/// S1: there is a mesh, and every parameter is in exactly one group.
mlir::LogicalResult checkGroups(Step &step);

/// S2 to S5, in one walk over the step: gathers, uses of parameters, reductions and updates.
mlir::LogicalResult checkCollectives(Step &step);

} // namespace fsdp

#endif // FSDP_ANALYSIS_SHARDINGCHECKS_H
