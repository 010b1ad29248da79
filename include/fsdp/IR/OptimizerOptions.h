//===- OptimizerOptions.h - Which options an optimizer has -------*- C++ -*-===//

#ifndef FSDP_IR_OPTIMIZEROPTIONS_H
#define FSDP_IR_OPTIMIZEROPTIONS_H

#include "fsdp/IR/Fsdp.h"
#include "fsdp/Plan/Optimizers.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/Error.h"

#include <map>
#include <string>
#include <vector>

namespace fsdp {

/// Values of an optimizer's options by torch's names: one number, two of `betas`, 0 or 1 of a flag.
/// An option that is absent is not given.
using OptimizerOptions = std::map<std::string, llvm::SmallVector<double, 2>, std::less<>>;

inline const plan::OptimizerKind &getKindEntry(OptimizerKind kind) {
  return plan::kOptimizerKinds[static_cast<size_t>(kind)];
}
/// torch's defaults of all options that this kind has.
OptimizerOptions getDefaultOptions(OptimizerKind kind);

/// The first given option that this kind does not have.
std::optional<llvm::StringRef> findForeignOption(OptimizerKind kind, const OptimizerOptions &given);

/// The first option whose number of values or a value is wrong, and the description of the error:
/// "is -1, expected ...", "holds 1 number, expected 2".
struct WrongOption {
  llvm::StringRef name;
  std::string problem;
};
std::optional<WrongOption> findWrongOption(const OptimizerOptions &given);
/// Nesterov momentum needs a momentum and no dampening. The text names the value that is wrong.
std::optional<std::string> checkNesterov(const OptimizerOptions &given);
/// Gradients are clipped by their norm or by the values of their elements, not both: torch's two
/// functions give different results in different orders.
std::optional<std::string> checkClipping(const OptimizerOptions &given, bool clipsNorm);

/// The options of torch.amp.GradScaler, with its defaults.
struct LossScaling {
  double init = 65536; // the scale of the first step
  double growthFactor = 2, backoffFactor = 0.5;
  int64_t growthInterval = 2000; // steps
};
/// The first wrong value, under the name that an `fsdp.optimizer` has for it.
std::optional<WrongOption> findWrongScaling(const LossScaling &scaling);
std::optional<LossScaling> readLossScaling(OptimizerOp optimizer);
void writeLossScaling(OptimizerOp optimizer, const std::optional<LossScaling> &scaling);

/// The options that an `fsdp.optimizer` or an `fsdp.optimizer_group` states.
OptimizerOptions readOptions(mlir::Operation *op);
/// States the given options. Optional ones that are 0 are left out.
void writeOptions(mlir::Operation *op, const OptimizerOptions &given);
/// An `fsdp.optimizer` with the given options, and torch's defaults of the others.
OptimizerOp createOptimizer(mlir::OpBuilder &builder, mlir::Location location, OptimizerKind kind,
                            const OptimizerOptions &given, mlir::FloatAttr clipGradNorm,
                            NormType clipNormType);
/// An `fsdp.optimizer_group` with the given options.
OptimizerGroupOp createOptimizerGroup(mlir::OpBuilder &builder, mlir::Location location,
                                      llvm::ArrayRef<mlir::Attribute> params,
                                      const OptimizerOptions &given);

/// torch's names of the optimizer states of each parameter, in the order of a plan: exp_avg, ...
llvm::SmallVector<llvm::StringRef, 3> getStateNames(OptimizerKind kind,
                                                    const OptimizerOptions &given);
llvm::SmallVector<llvm::StringRef, 3> getStateNames(OptimizerOp optimizer);

/// Describes why `name` is no state of an optimizer with `states`; nullopt if it is one.
std::optional<std::string> explainForeignState(llvm::StringRef name, OptimizerKind kind,
                                               llvm::ArrayRef<llvm::StringRef> states);

/// The dtypes of states as a user gives them: names of states with `float32` or `bfloat16`. The
/// name "" means all states without an entry of their own, except the average of the weights: the
/// changes of one step are lost in bf16.
using StateDtypes = std::vector<std::pair<std::string, std::string>>;

/// A flag's value: `bfloat16`, or `exp_avg=bfloat16,exp_avg_sq=float32`.
llvm::Expected<StateDtypes> parseStateDtypes(llvm::StringRef text);

/// The attribute `state_dtype` of an optimizer with these states, for parameters of these dtypes;
/// null if all states have the parameters' dtype. Errors: states that the optimizer does not have,
/// and other dtypes.
llvm::Expected<mlir::DictionaryAttr> makeStateDtype(const StateDtypes &given, OptimizerKind kind,
                                                    llvm::ArrayRef<llvm::StringRef> states,
                                                    mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_IR_OPTIMIZEROPTIONS_H
