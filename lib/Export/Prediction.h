//===- Prediction.h - Predicted time and memory in reports ------*- C++ -*-===//

#ifndef FSDP_LIB_EXPORT_PREDICTION_H
#define FSDP_LIB_EXPORT_PREDICTION_H

#include "fsdp/Analysis/ScheduleProblem.h"
#include "fsdp/Export/Report.h"
#include "llvm/Support/JSON.h"

namespace fsdp {

/// Writes the members of the report's "prediction".
llvm::LogicalResult writePrediction(mlir::ModuleOp module, const StepMemory &memory,
                                    const cost::CostModel &costs,
                                    std::optional<int64_t> memoryCapBytes,
                                    llvm::json::OStream &out);

} // namespace fsdp

#endif // FSDP_LIB_EXPORT_PREDICTION_H
