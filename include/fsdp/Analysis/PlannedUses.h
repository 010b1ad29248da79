//===- PlannedUses.h - Until when a planned step needs its buffers -*- C++ -*-===//
//
// Found from the module alone: its uses, waits, reshards and offsets. The memory planner's live
// ranges (LiveRanges.h) have no part in it, so that the verifier can prove them.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_PLANNEDUSES_H
#define FSDP_ANALYSIS_PLANNEDUSES_H

#include "fsdp/Analysis/StepStorage.h"

#include <optional>

namespace fsdp {

/// Where a group's gradients are packed: the input of a reduction, or what an update reads.
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
  /// The last position at which a storage is needed. A gradient that lies where its group's
  /// gradients are packed is needed until they are used up.
  int64_t getLast(int64_t index) const { return lastUse[index]; }

  /// Of an operation that packs gradients; none where offsets or a wait are missing.
  std::optional<GradientSink> getSink(mlir::Operation *op) const;
  /// True if the gradient lies at its place in the group's gradients already.
  bool isPlaced(const GradientSink &sink, unsigned param, mlir::Value gradient) const;
  /// Of an operation that packs gradients and writes to them: the parameter whose gradient lies
  /// there and is used later; none if there is none.
  std::optional<unsigned> getSpoiled(mlir::Operation *op) const {
    auto found = spoiled.find(op);
    return found == spoiled.end() ? std::nullopt : std::optional(found->second);
  }

private:
  void findLastUses(mlir::Block &body);
  void keepUntilWaits(mlir::Block &body);
  void keepPlacedGradients(mlir::Block &body);

  const StepStorage &storage;
  int64_t end = 0;
  std::vector<int64_t> lastUse;                // by storage
  llvm::DenseMap<mlir::Value, int64_t> waitOf; // by handle
  llvm::DenseMap<mlir::Operation *, unsigned> spoiled;
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_PLANNEDUSES_H
