//===- LiveRanges.h - Live ranges of a step's buffers -----------*- C++ -*-===//

#ifndef FSDP_ANALYSIS_LIVERANGES_H
#define FSDP_ANALYSIS_LIVERANGES_H

#include "fsdp/Analysis/StepStorage.h"
#include "fsdp/Plan/ArenaPlanner.h"

namespace fsdp {

inline constexpr unsigned kNumBufferCategories = getMaxEnumValForBufferCategory() + 1;

/// A buffer of the step. Positions count the operations of the step's block from 0.
struct LiveRange {
  int64_t bytes;       // aligned as the arena is
  int64_t first, last; // positions at which it is live, both included
  BufferCategory category;
  /// The declaration of a group or buffer, the start of a collective or of a fetch, or the
  /// operation that yields the value.
  mlir::Operation *owner;
  /// Result number of `owner`, optimizer state from 1 on, or parameter of the group. Of a shard: 1
  /// for the copy that is gathered.
  unsigned index = 0;
  /// The storage in this buffer, or StepStorage::kNone. A gradient without a storage is copied
  /// here.
  int64_t storage = StepStorage::kNone;
  /// The gradients of a group are one bundle: buffers at fixed distances (ArenaPlanner.h).
  int64_t bundle = -1, bundleOffset = 0;
};

/// The ranges of a group's buffers that live between steps.
struct KeptRanges {
  // Unless they are on the host:
  std::optional<size_t> shard;
  llvm::SmallVector<size_t> states; // of the optimizer
  std::optional<size_t> copy;       // of the shard in another dtype, which is gathered
};

/// For people: `result #0 of 'mm.default' in "layers.0.mlp"`, `the gathered group @layers.0`.
std::string describe(const LiveRange &range, const StepStorage &storage);

/// All buffers of a step of a sharded, scheduled or planned module, by the memory model of streams
/// (FsdpCollectives.td). Linear in the number of operations.
class LiveRanges {
public:
  static constexpr size_t kNone = ~size_t(0);

  /// Diagnoses a missing or second optimizer, a collective without a wait, and state on the host
  /// without a fetch.
  static llvm::FailureOr<LiveRanges> build(mlir::ModuleOp module, mlir::func::FuncOp step,
                                           const GroupTable &groups, const StepStorage &storage);

  llvm::ArrayRef<LiveRange> getRanges() const { return ranges; }
  int64_t getNumPositions() const { return numPositions; }

  /// The range that holds a storage; kNone if the storage is a part of another one: a shard, a
  /// buffer, a gathered group.
  size_t lookup(int64_t storage) const { return rangeOfStorage[storage]; }
  const KeptRanges &getKept(const GroupInfo &group) const { return keptBy[group.index]; }
  /// The ranges of a buffer, of a fetch's start (the group's host parts), of a gather's start, of a
  /// reduction's start (its gradients, then the reduced shard) or of an fsdp.pack (its gradients).
  llvm::ArrayRef<size_t> lookup(mlir::Operation *op) const {
    auto found = rangesOf.find(op);
    return found == rangesOf.end() ? llvm::ArrayRef<size_t>() : found->second;
  }

  /// Gradients that their operations write directly into the reduction's input, and gradients that
  /// are copied there.
  int64_t numPlaced = 0, numCopied = 0, bytesCopied = 0;

private:
  class Builder;

  std::vector<LiveRange> ranges;
  std::vector<size_t> rangeOfStorage;
  std::vector<KeptRanges> keptBy; // by group
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<size_t>> rangesOf;
  int64_t numPositions = 0;
};

/// Bytes that are live at each position.
std::vector<int64_t> getLiveBytes(llvm::ArrayRef<LiveRange> ranges, int64_t numPositions);

/// Assigns one offset per range in one arena.
plan::ArenaPlan planArena(llvm::ArrayRef<LiveRange> ranges);
/// Likewise, around buffers with known offsets, as in fsdp/Plan/ArenaPlanner.h.
plan::ArenaPlan fillArena(llvm::ArrayRef<LiveRange> ranges, llvm::ArrayRef<int64_t> known);

} // namespace fsdp

#endif // FSDP_ANALYSIS_LIVERANGES_H
