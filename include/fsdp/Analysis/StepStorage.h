//===- StepStorage.h - Which tensors of a step share memory ------*- C++ -*-===//

#ifndef FSDP_ANALYSIS_STEPSTORAGE_H
#define FSDP_ANALYSIS_STEPSTORAGE_H

#include "fsdp/Analysis/GroupTable.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// What holds the bytes of a tensor and of all its views.
struct Storage {
  enum class Kind {
    Fresh,    // result `index` of an aten.call, or of an fsdp.square_sum
    Constant, // of an aten.constant
    Input,    // of an fsdp.input
    Buffer,   // what an fsdp.read of a buffer yields: the buffer itself
    Shard,    // what an fsdp.read of parameter `index` of `group` yields, on one rank: the shard
    Gathered, // parameter `index` of `group`, inside a flat gather's output
    Parameter // result `index` of a gather's wait in the per-param layout: a copy
  };
  Kind kind;
  mlir::Operation *owner; // the operation that yields the tensor
  unsigned index = 0;
  int64_t bytes = 0; // from its beginning to the end of its last element
  const GroupInfo *group = nullptr;
};

/// The storages of a step and which tensor lies in which. A tensor without elements, and `none`,
/// lie in none.
class StepStorage {
public:
  static constexpr int64_t kNone = -1;

  /// Errors where a view reaches beyond its storage, or an operation has no place in a scheduled
  /// step.
  static llvm::FailureOr<StepStorage> build(mlir::func::FuncOp step, const GroupTable &groups);

  llvm::ArrayRef<Storage> getStorages() const { return storages; }
  /// Index of the storage that holds the tensor, or kNone.
  int64_t lookup(mlir::Value value) const {
    auto found = storageOf.find(value);
    return found == storageOf.end() ? kNone : found->second;
  }

private:
  std::vector<Storage> storages;
  llvm::DenseMap<mlir::Value, int64_t> storageOf;
};

/// For people: `result #1 of "aten.call" native_dropout.default in "drop"`, `gathered parameter
/// @w`.
std::string describe(const Storage &storage);

/// The step of a module: its one function. Errors where there is none, or the module's phase is
/// none of `phases`, naming what was found.
llvm::FailureOr<mlir::func::FuncOp> getStep(mlir::ModuleOp module,
                                            llvm::ArrayRef<ModulePhase> phases);

} // namespace fsdp

#endif // FSDP_ANALYSIS_STEPSTORAGE_H
