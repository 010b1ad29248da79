//===- OptimizerOptions.h - Which options an optimizer has -------*- C++ -*-===//

#ifndef FSDP_IR_OPTIMIZEROPTIONS_H
#define FSDP_IR_OPTIMIZEROPTIONS_H

#include "fsdp/IR/Fsdp.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace fsdp {

/// Whether torch.optim's optimizer of this kind has the option: "momentum", "amsgrad", ...
bool hasOption(OptimizerKind kind, llvm::StringRef name);

/// An option by name, and whether the user gave it.
using GivenOption = std::pair<llvm::StringRef, bool>;

/// The first given option that this kind does not have.
std::optional<llvm::StringRef> findForeignOption(OptimizerKind kind,
                                                 llvm::ArrayRef<GivenOption> options);

/// torch's names of the optimizer states of each parameter, in the order of a plan: exp_avg, ...
llvm::SmallVector<llvm::StringRef, 3> getStateNames(OptimizerKind kind, bool hasMomentum,
                                                    bool amsgrad);
llvm::SmallVector<llvm::StringRef, 3> getStateNames(OptimizerOp optimizer);

/// Describes why `name` is no state of an optimizer with `states`; nullopt if it is one.
std::optional<std::string> explainForeignState(llvm::StringRef name, OptimizerKind kind,
                                               llvm::ArrayRef<llvm::StringRef> states);

/// The dtypes of states as a user gives them: names of states with `float32` or `bfloat16`. The
/// name "" means all states without an entry of their own.
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
