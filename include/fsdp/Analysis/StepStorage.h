//===- StepStorage.h - Storages of a step's values --------------*- C++ -*-===//

#ifndef FSDP_ANALYSIS_STEPSTORAGE_H
#define FSDP_ANALYSIS_STEPSTORAGE_H

#include "fsdp/Analysis/GroupTable.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// The memory of a value and of all its aliases (StepOpInterface).
struct Storage {
  BufferCategory category;
  mlir::Operation *owner; // the operation that makes it, or that reads the declaration
  unsigned index = 0; // result of `owner`; for gathered and kept parameters the index in the group
  int64_t bytes = 0;  // of a tensor: from its beginning to the end of its last element
  const GroupInfo *group = nullptr; // of shards, full parameters, gradients, optimizer state
  /// The storage that this one is a part of: a parameter's, of a flat gather's output.
  int64_t whole = -1;
  /// True if it lies in a buffer, or in a group's state, that lives between steps.
  bool isDeclared = false;
};

/// The storages of a step, and the storage of each value. A tensor without elements, a scalar and
/// `none` have no storage. The storage of a handle is that of the result its start makes.
class StepStorage {
public:
  static constexpr int64_t kNone = -1;

  /// Diagnoses a view beyond the end of its storage, and an operation that a scheduled step cannot
  /// have.
  static llvm::FailureOr<StepStorage> build(mlir::func::FuncOp step, const GroupTable &groups);

  llvm::ArrayRef<Storage> getStorages() const { return storages; }
  /// Index of the storage that holds the value, or kNone.
  int64_t lookup(mlir::Value value) const {
    auto found = storageOf.find(value);
    return found == storageOf.end() ? kNone : found->second;
  }
  /// Calls `visit` with the storages that an operation touches: those of its operands and results,
  /// and the storages that these are parts of. A reshard touches the parameters that it releases.
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

/// The handle that an operation waits for; null if it waits for none. A reshard, and a start that
/// takes another start's handle, do not wait.
inline mlir::Value getAwaitedHandle(mlir::Operation &op) {
  if (op.getNumOperands() == 1 && llvm::isa<HandleType>(op.getOperand(0).getType()) &&
      !getStartedHandle(op) && !llvm::isa<ReshardOp>(op))
    return op.getOperand(0);
  return {};
}

/// For people: `result #1 of "aten.call" native_dropout.default in "drop"`, `gathered parameter
/// @w`.
std::string describe(const Storage &storage);

/// The step of a module: its only function. Errors name the phase found if it is none of `phases`.
llvm::FailureOr<mlir::func::FuncOp> getStep(mlir::ModuleOp module,
                                            llvm::ArrayRef<ModulePhase> phases);

} // namespace fsdp

#endif // FSDP_ANALYSIS_STEPSTORAGE_H
