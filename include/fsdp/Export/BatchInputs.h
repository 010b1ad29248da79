//===- BatchInputs.h - What batches of data can be ----------------*- C++ -*-===//

#ifndef FSDP_EXPORT_BATCHINPUTS_H
#define FSDP_EXPORT_BATCHINPUTS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

namespace fsdp {

/// Diagnoses inputs of a step that a training binary cannot read (openData() of the runtime): it
/// takes samples from data, and rank r takes other ones than its neighbours. So the first dimension
/// of each input counts samples, as many as that of all others, and the tensor is contiguous.
mlir::LogicalResult checkBatchInputs(mlir::ModuleOp step);

} // namespace fsdp

#endif // FSDP_EXPORT_BATCHINPUTS_H
