//===- OptimizerValues.h - Optimizer options of each parameter --*- C++ -*-===//

#ifndef FSDP_ANALYSIS_OPTIMIZERVALUES_H
#define FSDP_ANALYSIS_OPTIMIZERVALUES_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace fsdp {

/// Options of an optimizer under torch.optim's names; 0 where the optimizer has no such option.
struct OptimizerValues {
  OptimizerKind kind = OptimizerKind::SGD;
  double lr = 0, weightDecay = 0, momentum = 0, dampening = 0, beta1 = 0, beta2 = 0, eps = 0;
  bool nesterov = false, amsgrad = false, maximize = false;
  /// `lr` is that of a parameter group: a run's learning rate does not replace it.
  bool hasOwnLr = false;
};

/// The optimizer of a module and its groups.
class OptimizerTable {
public:
  /// Reads a module with one optimizer. Diagnoses a parameter in two parameter groups, and betas or
  /// eps of an optimizer that has none.
  static llvm::FailureOr<OptimizerTable> build(mlir::ModuleOp module);

  /// The values of parameters outside of all groups, then those of each group, in declaration
  /// order.
  llvm::ArrayRef<OptimizerValues> getValues() const { return values; }
  /// The index in getValues() of the values that update a parameter.
  unsigned getIndex(mlir::StringAttr param) const { return indexOf.lookup(param); }
  const OptimizerValues &lookup(mlir::StringAttr param) const { return values[getIndex(param)]; }

private:
  std::vector<OptimizerValues> values;
  llvm::DenseMap<mlir::StringAttr, unsigned> indexOf; // of parameters in groups
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_OPTIMIZERVALUES_H
