//===- StepStorage.h - Which values of a step share memory -------*- C++ -*-===//

#ifndef FSDP_ANALYSIS_STEPSTORAGE_H
#define FSDP_ANALYSIS_STEPSTORAGE_H

#include "fsdp/Analysis/GroupTable.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// What holds the bytes of a value and of all that aliases it (StepOpInterface).
struct Storage {
  BufferCategory category;
  mlir::Operation *owner; // the operation that makes it, or that reads what is declared
  unsigned index = 0; // result of `owner`; of gathered and kept parameters the place in the group
  int64_t bytes = 0;  // of a tensor: from its beginning to the end of its last element
  const GroupInfo *group = nullptr; // of shards, full parameters, gradients, optimizer state
  /// The storage of which it is a part: a parameter's, of a flat gather.
  int64_t whole = -1;
  /// True if it is or belongs to what a group or buffer keeps between steps.
  bool isDeclared = false;
};

/// The storages of a step, and which value lies in which. A tensor without elements, a scalar and
/// `none` lie in none. The storage of a handle is what its start makes.
class StepStorage {
public:
  static constexpr int64_t kNone = -1;

  /// Errors where a view reaches beyond its storage, or an operation has no place in a scheduled
  /// step.
  static llvm::FailureOr<StepStorage> build(mlir::func::FuncOp step, const GroupTable &groups);

  llvm::ArrayRef<Storage> getStorages() const { return storages; }
  /// Index of the storage that holds the value, or kNone.
  int64_t lookup(mlir::Value value) const {
    auto found = storageOf.find(value);
    return found == storageOf.end() ? kNone : found->second;
  }
  /// Calls `visit` with the storages that an operation touches: those of its operands and results,
  /// and what they are parts of. A reshard touches the parameters that it ends.
  void forEachTouched(mlir::Operation &op, llvm::function_ref<void(int64_t)> visit) const;

private:
  class Builder;

  std::vector<Storage> storages;
  llvm::DenseMap<mlir::Value, int64_t> storageOf;
};

/// The handle that an operation starts; null if it starts none.
inline mlir::Value getStartedHandle(mlir::Operation &op) {
  if (op.getNumResults() == 1 && llvm::isa<HandleType>(op.getResult(0).getType()))
    return op.getResult(0);
  return {};
}

/// The handle that an operation waits for; null if it waits for none. A start that goes on with
/// another's result, and a reshard, do not wait.
inline mlir::Value getAwaitedHandle(mlir::Operation &op) {
  if (op.getNumOperands() == 1 && llvm::isa<HandleType>(op.getOperand(0).getType()) &&
      !getStartedHandle(op) && !llvm::isa<ReshardOp>(op))
    return op.getOperand(0);
  return {};
}

/// For people: `result #1 of "aten.call" native_dropout.default in "drop"`, `gathered parameter
/// @w`.
std::string describe(const Storage &storage);

/// The step of a module: its one function. Errors where there is none, or the module's phase is
/// none of `phases`, naming what was found.
llvm::FailureOr<mlir::func::FuncOp> getStep(mlir::ModuleOp module,
                                            llvm::ArrayRef<ModulePhase> phases);

} // namespace fsdp

#endif // FSDP_ANALYSIS_STEPSTORAGE_H
