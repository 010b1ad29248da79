//===- LeastPeak.h - The least memory of a captured step --------*- C++ -*-===//

#ifndef FSDP_PASSES_LEASTPEAK_H
#define FSDP_PASSES_LEASTPEAK_H

#include "fsdp/CostModel/CostModel.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/Passes.h"

namespace fsdp {

/// The least peak, in bytes, of any schedule of the captured step with groups `captured`, after
/// fsdp-recompute with these options (null: without) and fsdp-offload-optimizer; none where that is
/// no step that can be scheduled. Emits nothing. `captured` is changed: give a clone.
std::optional<int64_t> findLeastPeak(mlir::ModuleOp captured, const cost::CostModel &costs,
                                     const RecomputeOptions *recompute, OffloadPolicy offload);

} // namespace fsdp

#endif // FSDP_PASSES_LEASTPEAK_H
