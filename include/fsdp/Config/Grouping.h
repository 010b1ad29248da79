//===- Grouping.h - Grouping of parameters ----------------------*- C++ -*-===//

#ifndef FSDP_CONFIG_GROUPING_H
#define FSDP_CONFIG_GROUPING_H

#include "fsdp/Config/ShardingConfig.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace fsdp {

/// A parameter with all of its qualified names. The first name is its own, the others are aliases.
struct NamedParam {
  std::vector<std::string> names;
  bool isFrozen = false; // it has no gradient
  std::string dtype = {}; // any name of it; parameters of two dtypes are never in one group
  std::vector<int64_t> shape = {};
  /// The modules of the operations that use the parameter.
  std::vector<std::string> users = {};
  /// The 8-bit float in which the parameter can be gathered: the model casts it to that.
  std::optional<GatherDtype> float8 = {};
};

/// One call of fully_shard.
struct ParamGroup {
  std::vector<std::string> modules; // "" is the root
  /// Indices into the model's parameters, in the model's order, frozen ones last.
  std::vector<unsigned> params;
  /// Frozen parameters of another dtype than the group's first parameter, and in the flat layout
  /// all frozen parameters of a group, form separate groups of the same modules, one for each
  /// dtype.
  bool isFrozenPart = false;
  /// In FSDP2 these parameters are in the group of this module (ShardingConfig::splitRoot,
  /// splitBlocks); "" is the root.
  std::optional<std::string> partOf = {};
  /// True if all parameters are gathered as float8. Beside trained parameters that are not they
  /// form a separate group of the same modules, before the other.
  bool isFloat8 = false, isFloat8Part = false;
  /// True if another group of the same modules has the name of these.
  bool isSeparated() const { return isFrozenPart || isFloat8Part; }
  /// The user's options for this group or for all; `mesh` is always set. The number of ranks in
  /// `reshardAfterForward` is above 1 and below the size of the axis: other numbers are replaced by
  /// the word that FSDP2 takes them for.
  GroupOptions options;
  /// For each parameter the dimension on which it is sharded; empty: dimension 0 for all.
  std::vector<int64_t> shardDims = {};
  /// Where the file declares the group; line 0: nowhere.
  ConfigPlace place = {};
  /// Of the root: the model's repeated blocks that are no groups of their own, see groupParams().
  std::vector<std::string> blocksInRoot = {};
};

/// Groups `params` (in the model's order) as `config` says, in the order of the fully_shard calls.
/// The root group is last and is left out if it has no parameters. `modules` are further paths that
/// patterns may name: modules without parameters. Modules that hold no parameters, or whose
/// parameters all belong to inner groups, make no group. If a model holds one module under two
/// names, its operations have the first name, and patterns may name either.
///
/// If `config` does not say which groups there are, each repeated block is one, unless operations
/// outside of the block use its parameters, or modules outside hold them: such blocks stay in the
/// root.
///
/// If the root is split, the root parameters between two other groups, in the model's order, form a
/// group of the outermost modules that hold no other parameters. Parameters of the root module
/// itself, shared parameters, and parameters that are used outside of their module stay in the
/// root.
///
/// If blocks are split, the modules of a group of one module with at least twice as many parameters
/// as a part shall have are divided, in the model's order, into parts of about equal size. The
/// first part stays in the group, and so does what cannot be a part: parameters of modules that
/// are divided themselves, shared parameters, parameters that are used outside of their module, and
/// those that nothing uses.
///
/// Errors (ConfigErrors where a line of the file causes them) name pattern and module: a pattern
/// without a match, a module that is given twice or after a module around it, a parameter in two
/// groups, a mesh whose number of ranks differs from the model's, prefetch lists of a module
/// without a group; and the errors of placeShards() (ShardPlacement.h).
llvm::Expected<std::vector<ParamGroup>> groupParams(llvm::ArrayRef<NamedParam> params,
                                                    llvm::ArrayRef<std::string> modules,
                                                    const ShardingConfig &config);

} // namespace fsdp

#endif // FSDP_CONFIG_GROUPING_H
