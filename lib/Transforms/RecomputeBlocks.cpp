//===- RecomputeBlocks.cpp - Operators recomputed together ----------------===//

#include "fsdp/Transforms/RecomputeBlocks.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;
using aten::Phase;

FailureOr<RecomputeBlocks> RecomputeBlocks::build(Step &step, const BlockOptions &options,
                                                  ArrayRef<std::string> keep,
                                                  RecomputePolicy limit) {
  FailureOr<GroupPolicies> policies = choosePolicies(step, options, limit);
  if (failed(policies))
    return failure();
  RecomputeBlocks result;
  result.tree = std::make_shared<ModuleTree>();
  result.numBlocks = policies->numBlocks;
  result.blockOfNoGroup = step.groups.size();
  bool isSelected = llvm::is_contained(policies->policyOf, RecomputePolicy::Selected);
  if (limit == RecomputePolicy::Full && !keep.empty() && !isSelected)
    return step.module.emitError("'keep' is an option of policy=selected");
  for (auto [index, policy] : llvm::enumerate(policies->policyOf)) {
    RecomputeBlock &block = result.blocks.emplace_back();
    block.policy = policy;
    block.group = index;
    for (const std::string &name : keep)
      block.keep.insert(name);
  }
  // Parts of a block lie in its module.
  for (auto [index, group] : llvm::enumerate(step.groups))
    if (!group.isPartOfBlock())
      for (auto path : group.getModules().getAsRange<StringAttr>())
        result.blockOfPath[path.getValue()] = index;
  for (auto [index, group] : llvm::enumerate(step.groups))
    if (group.isPartOfBlock())
      result.blocks[index].policy = result.blocks[result.find(group.getPartOfAttr())].policy;
  if (failed(result.addRegions(step, limit)))
    return failure();
  return result;
}

/// True if `other` has parameters of the block: it is a part of the block, or has parameters of the
/// same modules that form a separate group, such as frozen ones.
static bool isOfBlock(GroupOp other, GroupOp block) {
  return other.getModules() == block.getModules() ||
         (other.isPartOfBlock() && llvm::is_contained(block.getModules(), other.getPartOfAttr()));
}

LogicalResult RecomputeBlocks::addRegions(Step &step, RecomputePolicy limit) {
  auto regions = llvm::to_vector(step.module.getOps<RecomputeRegionOp>());
  // Before any region is in the map, `find` returns the module's group.
  SmallVector<unsigned> groupOf = llvm::map_to_vector(
      regions, [&](RecomputeRegionOp region) { return find(region.getModuleAttr()); });
  blockOfModule.clear();
  for (auto [region, group] : llvm::zip_equal(regions, groupOf)) {
    const Module &outer = tree->add(region.getModule());
    for (GroupOp other : step.groups) {
      if (group < step.groups.size() && isOfBlock(other, step.groups[group]))
        continue;
      for (auto path : other.getModules().getAsRange<StringAttr>()) {
        if (!tree->add(path.getValue()).isIn(outer))
          continue;
        InFlightDiagnostic diag =
            region.emitError("region '")
            << region.getModule() << "' holds module '" << path.getValue() << "' of group @"
            << other.getSymName()
            << ": what is computed again for one backward has the parameters of one group; name "
               "the group's modules, or give them a group together";
        diag.attachNote(other.getLoc()) << "the group is declared here";
        return diag;
      }
    }
    RecomputeBlock &block = blocks.emplace_back();
    block.policy = std::min(region.getPolicy(), limit);
    block.group = group;
    block.region = region.getModule().str();
    if (ArrayAttr keep = region.getKeepAttr())
      for (auto name : keep.getAsRange<StringAttr>())
        block.keep.insert(name.getValue());
  }
  for (auto [index, region] : llvm::enumerate(regions))
    blockOfPath[region.getModule()] = blockOfNoGroup + 1 + index;
  return success();
}

unsigned RecomputeBlocks::find(StringAttr module) {
  auto [it, isNew] = blockOfModule.try_emplace(module, blockOfNoGroup);
  if (!isNew)
    return it->second;
  for (const Module *outer = &tree->add(module.getValue()); outer; outer = outer->parent)
    if (auto found = blockOfPath.find(outer->path); found != blockOfPath.end())
      return it->second = found->second;
  return it->second;
}

LogicalResult RecomputeBlocks::checkKeep(Step &step, ArrayRef<CallOp> calls) {
  llvm::StringSet<> called;                               // operators of the forward
  SmallVector<llvm::StringSet<>> calledBy(blocks.size()); // of its blocks
  for (CallOp call : calls)
    if (call.getPhase() == Phase::Forward) {
      called.insert(call.getBaseName());
      calledBy[find(call.getModuleAttr())].insert(call.getBaseName());
    }
  for (auto [index, block] : llvm::enumerate(blocks))
    for (const auto &name : block.keep) {
      if (block.region.empty() && !called.contains(name.getKey()))
        return step.module.emitError("keep: the forward calls no operator '")
               << name.getKey() << "'";
      if (!block.region.empty() && !calledBy[index].contains(name.getKey()))
        return step.module.emitError("region '") << block.region << "' keeps '" << name.getKey()
                                                 << "', an operator that its forward does not call";
    }
  return success();
}
