//===- ShardingDiagnostics.h - Errors that the sharded rules share -*- C++ -*-===//

#ifndef FSDP_LIB_ANALYSIS_SHARDINGDIAGNOSTICS_H
#define FSDP_LIB_ANALYSIS_SHARDINGDIAGNOSTICS_H

#include "fsdp/IR/Fsdp.h"

namespace fsdp {

/// Diagnoses `op`, with a note at `other` unless `other` is null.
mlir::LogicalResult fail(mlir::Operation *op, const llvm::Twine &message, mlir::Operation *other,
                         llvm::StringRef note);

/// S7: a parameter that is whole on the rank is read in its own dtype.
mlir::LogicalResult checkOwnDtype(mlir::Operation *op, mlir::Value value, ParamOp param);

} // namespace fsdp

#endif // FSDP_LIB_ANALYSIS_SHARDINGDIAGNOSTICS_H
