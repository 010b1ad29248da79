//===- Float8Gathers.h - Groups that are gathered as float8 -----*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_FLOAT8GATHERS_H
#define FSDP_TRANSFORMS_FLOAT8GATHERS_H

#include "fsdp/Analysis/Float8Casts.h"
#include "fsdp/Config/Grouping.h"

namespace fsdp {

/// The casts of parameters to float8 if `choices` ask any group to be gathered so; else none.
Float8CastsByParam findAskedCasts(Step &step, const ShardingConfig &choices);

/// The 8-bit float in which the parameter can be gathered; nullopt if it cannot.
std::optional<GatherDtype> getGatherDtype(const Float8CastsByParam &casts, ParamOp param);

/// Errors, with the file's line: a request for float8 that no parameter meets, one that a parameter
/// cannot meet although the step casts it to float8, and parameters of one group that are cast in
/// two ways.
llvm::Error checkFloat8Requests(Step &step, const ShardingConfig &choices,
                                llvm::ArrayRef<ParamGroup> groups, const Float8CastsByParam &casts);

/// Diagnoses a parameter of the group that the step does not cast as the group's `float8_cast`.
mlir::LogicalResult checkFloat8Casts(Step &step, GroupOp group, const Float8CastsByParam &casts);

/// Reads each parameter of the group in the 8-bit float, in place of its casts, and its largest
/// absolute value (`fsdp.amax`) in place of the computation. Returns the number of casts that are
/// gone.
unsigned readAsFloat8(Step &step, GroupOp group, const Float8CastsByParam &casts);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_FLOAT8GATHERS_H
