//===- StepMemory.h - Memory analysis of one step ---------------*- C++ -*-===//

#ifndef FSDP_ANALYSIS_STEPMEMORY_H
#define FSDP_ANALYSIS_STEPMEMORY_H

#include "fsdp/Analysis/LiveRanges.h"

namespace fsdp {

/// Groups, storages and live ranges of a module's step. Valid as long as the module is unchanged.
struct StepMemory {
  mlir::func::FuncOp step;
  GroupTable groups;
  StepStorage storage;
  LiveRanges ranges;

  mlir::Block &getBody() const {
    mlir::func::FuncOp function = step; // accessors of operations are not const
    return function.getBody().front();
  }

  /// Errors are those of the parts.
  static llvm::FailureOr<StepMemory> build(mlir::ModuleOp module,
                                           llvm::ArrayRef<ModulePhase> phases);
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_STEPMEMORY_H
