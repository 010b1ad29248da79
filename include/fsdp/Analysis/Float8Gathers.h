//===- Float8Gathers.h - Gathers of parameters as float8 --------*- C++ -*-===//

#ifndef FSDP_ANALYSIS_FLOAT8GATHERS_H
#define FSDP_ANALYSIS_FLOAT8GATHERS_H

#include "fsdp/Analysis/Step.h"

namespace fsdp {

/// The operation whose result an all-reduce has made `total`; null if there is none.
PartialAmaxOp findPartialAmax(mlir::Value total);

/// Where the parameters of the group begin in the result; nullopt if it has none of them.
std::optional<int64_t> findAmaxBegin(PartialAmaxOp part, mlir::FlatSymbolRefAttr group);

/// Checks `fsdp.encode`, `fsdp.partial_amax` and `fsdp.amax` of groups that are gathered as float8.
/// (Part of S2.)
mlir::LogicalResult checkFloat8Gathers(Step &step);

} // namespace fsdp

#endif // FSDP_ANALYSIS_FLOAT8GATHERS_H
