//===- OptimizerValues.h - Optimizer options of each parameter --*- C++ -*-===//

#ifndef FSDP_ANALYSIS_OPTIMIZERVALUES_H
#define FSDP_ANALYSIS_OPTIMIZERVALUES_H

#include "fsdp/IR/Fsdp.h"
#include "fsdp/Plan/Abi.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace fsdp {

/// The optimizer of a module and its groups, as a plan has them.
class OptimizerTable {
public:
  /// Reads a module with one optimizer. Diagnoses a parameter in two parameter groups, options of a
  /// group that the optimizer does not have, and an optimizer without a kernel for the target.
  static llvm::FailureOr<OptimizerTable> build(mlir::ModuleOp module);

  /// The values of parameters outside of all groups, then those of each group, in declaration
  /// order.
  llvm::ArrayRef<fsdp_optimizer> getValues() const { return values; }
  /// The index in getValues() of the values that update a parameter.
  unsigned getIndex(mlir::StringAttr param) const { return indexOf.lookup(param); }
  const fsdp_optimizer &lookup(mlir::StringAttr param) const { return values[getIndex(param)]; }

private:
  std::vector<fsdp_optimizer> values;
  llvm::DenseMap<mlir::StringAttr, unsigned> indexOf; // of parameters in groups
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_OPTIMIZERVALUES_H
