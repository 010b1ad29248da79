//===- PlannedUses.h - Last uses of a planned step's buffers ----*- C++ -*-===//
//
// Positions follow from the module alone: its uses, waits, reshards and offsets. The memory
// planner's live ranges (LiveRanges.h) are not consulted, so that the verifier can check them.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_PLANNEDUSES_H
#define FSDP_ANALYSIS_PLANNEDUSES_H

#include "fsdp/Analysis/StepStorage.h"

#include <optional>

namespace fsdp {

/// The buffer of a group's packed gradients: the input of a reduction, or of an update.
struct GradientSink {
  const GroupInfo *group;
  int64_t base, end; // arena offset; last position at which the gradients are needed
};

/// Positions count the operations of the step's block from 0.
class PlannedUses {
public:
  PlannedUses(mlir::func::FuncOp step, const GroupTable &groups, const StepStorage &storage);

  /// The return's position.
  int64_t getEnd() const { return end; }
  /// The last position at which a storage is needed. A gradient that already lies in its group's
  /// packed buffer is needed until that buffer is.
  int64_t getLast(int64_t index) const { return lastUse[index]; }

  /// The buffer that an operation packs gradients into; none where an offset or a wait is missing.
  std::optional<GradientSink> getSink(mlir::Operation *op) const;
  /// True if the gradient already lies at its offset in the packed buffer.
  bool isPlaced(const GradientSink &sink, unsigned param, mlir::Value gradient) const;
  /// For an operation that packs gradients and overwrites the packed buffer: a parameter whose
  /// gradient lies in the buffer and is used later; none if there is no such parameter.
  std::optional<unsigned> getOverwritten(mlir::Operation *op) const {
    auto found = overwritten.find(op);
    return found == overwritten.end() ? std::nullopt : std::optional(found->second);
  }

private:
  void findLastUses(mlir::Block &body);
  void keepUntilWaits(mlir::Block &body);
  void keepPlacedGradients(mlir::Block &body);

  const StepStorage &storage;
  int64_t end = 0;
  std::vector<int64_t> lastUse;                // by storage
  llvm::DenseMap<mlir::Value, int64_t> waitOf; // by handle
  llvm::DenseMap<mlir::Operation *, unsigned> overwritten;
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_PLANNEDUSES_H
