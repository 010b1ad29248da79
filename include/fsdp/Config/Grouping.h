//===- Grouping.h - Which parameters travel together ------------*- C++ -*-===//

#ifndef FSDP_CONFIG_GROUPING_H
#define FSDP_CONFIG_GROUPING_H

#include "fsdp/Config/ShardingConfig.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace fsdp {

/// A parameter under all of its qualified names; the first is its own, the others are aliases.
struct NamedParam {
  std::vector<std::string> names;
  bool isFrozen = false; // it has no gradient
  std::vector<int64_t> shape = {};
  /// The modules of the operations that use it.
  std::vector<std::string> users = {};
};

/// One call of fully_shard.
struct ParamGroup {
  std::vector<std::string> modules; // "" is the root
  /// Indices into the model's parameters, in its order, the frozen ones last.
  std::vector<unsigned> params;
  /// In the flat layout a group's frozen parameters are one of their own, with the same modules.
  bool isFrozenPart = false;
  /// FSDP2 has these parameters in its root group (ShardingConfig::splitRoot).
  bool isPartOfRoot = false;
  /// As the user says, for this group or for all; `mesh` is always set. The number of ranks of
  /// `reshardAfterForward` is more than 1 and less than the whole axis: what FSDP2 means by others
  /// has become the word.
  GroupOptions options;
  /// Of each parameter the dimension on which it is cut; none: all on dimension 0.
  std::vector<int64_t> shardDims = {};
  /// Where the file says so; line 0: nowhere.
  ConfigPlace place = {};
};

/// Groups `params` (in the model's order) as `config` says, in the order of fully_shard's calls;
/// the root group is last, and left out if nothing is left for it. Where the root is to be split,
/// what is left between two other groups, in the model's order, is a group of the outermost modules
/// that hold it and nothing else; parameters of the root module itself, those that modules share
/// and those that are used outside of their module stay in the root. `modules` are further paths
/// that patterns may name: those of modules without parameters. Modules that hold no parameters, or
/// whose parameters inner groups have taken, make no group.
///
/// Errors (ConfigErrors where a line of the file is to blame) name pattern and module: a pattern
/// without match, a module given twice or after a module around it, a parameter that two groups
/// share, a mesh of another number of ranks than the model's, lists of modules to prefetch where
/// there is no group; and what placeShards() of ShardPlacement.h refuses.
llvm::Expected<std::vector<ParamGroup>> groupParams(llvm::ArrayRef<NamedParam> params,
                                                    llvm::ArrayRef<std::string> modules,
                                                    const ShardingConfig &config);

} // namespace fsdp

#endif // FSDP_CONFIG_GROUPING_H
