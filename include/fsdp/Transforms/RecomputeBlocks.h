//===- RecomputeBlocks.h - What the backward computes again ------*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_RECOMPUTEBLOCKS_H
#define FSDP_TRANSFORMS_RECOMPUTEBLOCKS_H

#include "fsdp/Config/ModuleTree.h"
#include "fsdp/IR/Aten.h"
#include "fsdp/Transforms/RecomputePolicies.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <memory>

namespace fsdp {

/// Operators that the backward repeats for themselves: those of a group's modules, or of a region
/// (`fsdp.recompute_region`).
struct RecomputeBlock {
  RecomputePolicy policy = RecomputePolicy::None;
  /// Its operators are a part of this group's backward. The number of groups: of no group's.
  unsigned group = 0;
  /// Of a region: its module. Empty: the block of a group.
  std::string region;
  /// Operators whose results `selected` keeps; empty: by their arithmetic.
  llvm::StringSet<> keep;

  /// True if what enters it is kept and else what its policy says.
  bool isRepeated() const { return policy >= RecomputePolicy::Selected; }
};

class RecomputeBlocks {
public:
  RecomputeBlocks() = default;

  /// Blocks of groups follow `options` and `keep`, regions what they say; none more than `limit`.
  /// Diagnoses what choosePolicies() does, `keep` without a block that is selected, and a region in
  /// which modules of another group lie: their gathers would move.
  static llvm::FailureOr<RecomputeBlocks> build(Step &step, const BlockOptions &options,
                                                llvm::ArrayRef<std::string> keep,
                                                RecomputePolicy limit);

  /// The index of the block to which the operators of a module belong: that of the innermost group
  /// or region around the module, else the block of what belongs to no group.
  unsigned find(mlir::StringAttr module);
  const RecomputeBlock &operator[](unsigned index) const { return blocks[index]; }
  bool hasRepeated() const {
    return llvm::any_of(blocks, [](const RecomputeBlock &block) { return block.isRepeated(); });
  }
  /// As GroupPolicies::numBlocks.
  int64_t getNumBlocks() const { return numBlocks; }

  /// Diagnoses an operator that is to be kept and that the forward does not call: that of the
  /// block, if it is a region, else the whole.
  mlir::LogicalResult checkKeep(Step &step, llvm::ArrayRef<aten::CallOp> calls);

private:
  mlir::LogicalResult addRegions(Step &step, RecomputePolicy limit);

  std::vector<RecomputeBlock> blocks;
  int64_t numBlocks = 0;
  unsigned blockOfNoGroup = 0; // behind those of groups, before those of regions
  std::shared_ptr<ModuleTree> tree;
  llvm::StringMap<unsigned> blockOfPath; // of modules that groups or regions name
  llvm::DenseMap<mlir::StringAttr, unsigned> blockOfModule; // found so far
};

} // namespace fsdp

#endif // FSDP_TRANSFORMS_RECOMPUTEBLOCKS_H
