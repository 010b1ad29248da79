//===- PlannedUses.h - Until when a planned step needs its buffers -*- C++ -*-===//
//
// Found from the module alone: its uses, waits, releases and offsets. The memory planner's live
// ranges (LiveRanges.h) have no part in it, so that the verifier can prove them.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PLANNEDUSES_H
#define FSDP_PASSES_PLANNEDUSES_H

#include "fsdp/Analysis/StepStorage.h"

#include <optional>

namespace fsdp {

/// Where a group's gradients come together: the input of a reduction, or what an update reads.
struct GradientSink {
  const GroupInfo *group;
  int64_t base, end; // arena offset; position until which they are needed
};

/// Positions count the operations of the step's block from 0.
class PlannedUses {
public:
  PlannedUses(mlir::func::FuncOp step, const GroupTable &groups, const StepStorage &storage);

  /// The return's position.
  int64_t getEnd() const { return end; }
  /// The last position at which a storage is needed; a gradient that lies where its group's
  /// gradients come together is needed until they are.
  int64_t getLast(int64_t index) const { return lastUse[index]; }
  /// Of an operation that is no call.
  int64_t getPosition(mlir::Operation *op) const { return positionOf.lookup(op); }
  /// Of the wait for a collective's start.
  std::optional<int64_t> getWait(mlir::Operation *start) const;
  /// Of the release of a gather; the end if there is none.
  int64_t getRelease(mlir::Operation *start) const;
  /// Of the wait for the store of a group's optimizer state; none where that is not on the host.
  std::optional<int64_t> getStoreWait(mlir::FlatSymbolRefAttr group) const;
  /// Null if the group has none.
  UpdateOp getUpdate(mlir::FlatSymbolRefAttr group) const {
    return updateOf.lookup(group.getAttr());
  }
  ReduceScatterStartOp getReduction(mlir::FlatSymbolRefAttr group) const {
    return reductionOf.lookup(group.getAttr());
  }

  /// Of a reduction's start or an fsdp.grad; none where offsets are missing.
  std::optional<GradientSink> getSink(mlir::Operation *op) const;
  /// True if the gradient lies at its place in the group's gradients already.
  bool isPlaced(const GradientSink &sink, unsigned param, mlir::Value gradient) const;

private:
  void findLastUses(mlir::Block &body);
  void keepPlacedGradients(mlir::Block &body);
  void keepPlacedGradient(const GradientSink &sink, unsigned param, mlir::Value gradient);

  const GroupTable &groups;
  const StepStorage &storage;
  int64_t end = 0;
  std::vector<int64_t> lastUse;                                 // by storage
  llvm::DenseMap<mlir::Operation *, int64_t> positionOf;        // of all but calls
  llvm::DenseMap<mlir::Operation *, int64_t> waitOf, releaseOf; // by start
  llvm::DenseMap<mlir::StringAttr, UpdateOp> updateOf;          // by group
  llvm::DenseMap<mlir::StringAttr, ReduceScatterStartOp> reductionOf;
  llvm::DenseMap<mlir::StringAttr, int64_t> storeWaitOf;
};

} // namespace fsdp

#endif // FSDP_PASSES_PLANNEDUSES_H
