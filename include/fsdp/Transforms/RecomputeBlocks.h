//===- RecomputeBlocks.h - Operators recomputed together --------*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_RECOMPUTEBLOCKS_H
#define FSDP_TRANSFORMS_RECOMPUTEBLOCKS_H

#include "fsdp/Config/ModuleTree.h"
#include "fsdp/IR/Aten.h"
#include "fsdp/Transforms/RecomputePolicies.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <memory>

namespace fsdp {

/// Operators that the backward recomputes together: those of a group's modules, with the parts of
/// the group, or of a region (`fsdp.recompute_region`).
struct RecomputeBlock {
  RecomputePolicy policy = RecomputePolicy::None;
  /// The group whose backward they belong to; the number of groups if they belong to none.
  unsigned group = 0;
  /// Of a region: its module. Empty: the block of a group.
  std::string region;
  /// Operators whose results `selected` keeps; empty: chosen by their arithmetic.
  llvm::StringSet<> keep;

  /// True if the block's inputs are kept and the policy decides on everything else.
  bool isRepeated() const { return policy >= RecomputePolicy::Selected; }
};

class RecomputeBlocks {
public:
  RecomputeBlocks() = default;

  /// Blocks of groups follow `options` and `keep`, regions their own policy; no block exceeds
  /// `limit`. Diagnoses the errors of choosePolicies(), `keep` without a selected block, and a
  /// region that contains modules of another group: their gathers would move.
  static llvm::FailureOr<RecomputeBlocks> build(Step &step, const BlockOptions &options,
                                                llvm::ArrayRef<std::string> keep,
                                                RecomputePolicy limit);

  /// The index of the block of a module's operators: that of the innermost group or region around
  /// the module, else the block of operators outside of all groups.
  unsigned find(mlir::StringAttr module);
  /// By index of a group: its block, or for a part of a block a copy without operators.
  const RecomputeBlock &operator[](unsigned index) const { return blocks[index]; }
  bool hasRepeated() const {
    return llvm::any_of(blocks, [](const RecomputeBlock &block) { return block.isRepeated(); });
  }
  /// GroupPolicies::numBlocks.
  int64_t getNumBlocks() const { return numBlocks; }

  /// Diagnoses an operator in a `keep` list that the forward does not call: the forward of the
  /// block for a region, else the whole forward.
  mlir::LogicalResult checkKeep(Step &step, llvm::ArrayRef<aten::CallOp> calls);

private:
  mlir::LogicalResult addRegions(Step &step, RecomputePolicy limit);

  std::vector<RecomputeBlock> blocks;
  int64_t numBlocks = 0;
  unsigned blockOfNoGroup = 0; // after the groups' blocks, before the regions'
  std::shared_ptr<ModuleTree> tree;
  llvm::StringMap<unsigned> blockOfPath; // of modules that groups or regions name
  llvm::DenseMap<mlir::StringAttr, unsigned> blockOfModule; // cache
};

} // namespace fsdp

#endif // FSDP_TRANSFORMS_RECOMPUTEBLOCKS_H
