//===- GroupTable.h - The groups of a module and their layouts ---*- C++ -*-===//

#ifndef FSDP_ANALYSIS_GROUPTABLE_H
#define FSDP_ANALYSIS_GROUPTABLE_H

#include "fsdp/IR/Fsdp.h"
#include "fsdp/Plan/GroupLayout.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// A group in one dtype: where its parameters, or what belongs to them, lie. Offsets are bytes.
struct GroupForm {
  mlir::Type elementType;
  int64_t elementBytes = 0;
  unsigned numParams = 0;    // the first ones of the group
  int64_t shardElements = 0; // a rank's part
  int64_t shardBytes = 0;    // likewise
  int64_t wholeBytes = 0;    // all ranks' parts
};

/// Something of a group that lies on the host between steps. Sizes are bytes.
struct HostPart {
  BufferCategory category;
  unsigned index;       // as LiveRange's
  std::string name;     // "optimizer state 1"
  int64_t bytes;        // on the host
  int64_t fetchedBytes; // in the arena, for the update: of the parameters that are not frozen

  /// The copy that is gathered is only stored: the update writes all of it.
  bool isCopy() const { return category == BufferCategory::Shard && index == 1; }
};

/// A group, resolved: its parameters and where they lie. Offsets are bytes unless they say
/// elements.
struct GroupInfo {
  GroupOp op;
  unsigned index = 0;    // among the module's groups
  unsigned replicas = 1; // of every shard: copies on as many ranks
  llvm::SmallVector<ParamOp> params;
  /// The parameters as they are updated and as they are gathered.
  GroupForm master, gathered;
  /// Of those that are not frozen, the first ones: as they are updated, and the gradients as they
  /// are reduced.
  GroupForm updated, gradients;
  /// Likewise, each state that the optimizer keeps of the shard: of a frozen group none.
  llvm::SmallVector<GroupForm, 3> states;
  plan::GroupLayout layout;
  plan::GroupLayout trained; // of those that are not frozen, each at its place in `layout`
  /// Of the chunks that stay after forward (`fsdp.chunk`), over their ranks; no parameters: none
  /// stay.
  plan::GroupLayout chunk;

  /// With an `all_gather_extension`: where the encoded part of each parameter begins in an encoded
  /// shard (bytes). The elements of `gathered` are then bytes. Empty without an extension.
  llvm::SmallVector<int64_t> encodedBegins;

  bool isEncoded() const { return !encodedBegins.empty(); }
  /// The dtype of parameters after a gather.
  mlir::Type getGatheredType() const {
    GroupOp group = op; // accessors of operations are not const
    return group.getGatherDtype() ? mlir::Type(*group.getGatherDtype()) : master.elementType;
  }
  /// How a shard of the group, or a chunk, is laid out.
  const plan::GroupLayout &getLayout(ShardType shard) const {
    return shard.getRanks() == 0 ? layout : chunk;
  }
  /// Ranks over which the group is sharded.
  unsigned getShards() const { return layout.ranks; }
  int64_t getChunkBytes() const { return chunk.shardElements * gathered.elementBytes; }
  /// Of a rank's reduced gradients, in the dtype of the value that holds them: accumulated ones
  /// have another than those that come from a reduction.
  int64_t getGradientBytes(mlir::Type dtype) const;
  bool isFlat() const { return layout.layout == plan::Layout::Flat; }
  int64_t getStateBytes() const; // of all states
  mlir::FlatSymbolRefAttr getName() const {
    GroupOp group = op; // accessors of operations are not const
    return mlir::FlatSymbolRefAttr::get(group.getSymNameAttr());
  }
  /// True if no parameter has a gradient: nothing is reduced and updated.
  bool isFrozen() const { return gradients.numParams == 0; }
  /// True if the shard has a copy in another dtype, which is gathered in its place.
  bool hasGatherCopy() const { return !isEncoded() && gathered.elementType != master.elementType; }
  mlir::RankedTensorType getParamType(unsigned param) const {
    ParamOp op = params[param]; // accessors of operations are not const
    return mlir::cast<mlir::RankedTensorType>(op.getType());
  }
  int64_t getParamElements(unsigned param) const { return getParamType(param).getNumElements(); }
  /// What lies on the host: the shard of the parameters, the optimizer's states, the copy that is
  /// gathered. Its places there, and those to which it is fetched, are in this order.
  std::vector<HostPart> getHostParts() const;
  int64_t getFetchedBytes() const; // of all of these
  /// The places on the host of a planned group's parts.
  llvm::SmallVector<int64_t> getHostPlaces() const;
  /// What is wrong with the places of a planned group in the arena and on the host: "has no place
  /// for ..."; none: nothing.
  std::optional<std::string> explainPlaces() const;
  /// Where the parameter begins in the whole group (flat layout, or one rank, where both layouts
  /// leave parameters whole).
  int64_t getParamBegin(unsigned param, const GroupForm &form) const {
    return layout.parameters[param].offset * form.elementBytes;
  }
  /// Where the next parameter begins, or the group ends: what lies between is padding.
  int64_t getParamEnd(unsigned param, const GroupForm &form) const {
    return param + 1 < form.numParams ? getParamBegin(param + 1, form) : form.wholeBytes;
  }
};

/// All groups of a sharded, scheduled or planned module, in order of declaration.
class GroupTable {
public:
  /// Errors where a group has no parameters, or a parameter no group.
  static llvm::FailureOr<GroupTable> build(mlir::ModuleOp module);

  llvm::ArrayRef<GroupInfo> getGroups() const { return groups; }
  /// True if some group is sharded over several ranks.
  bool isSharded() const {
    return llvm::any_of(groups, [](const GroupInfo &group) { return group.getShards() > 1; });
  }
  /// True if some group has replicas.
  bool isReplicated() const {
    return llvm::any_of(groups, [](const GroupInfo &group) { return group.replicas > 1; });
  }
  const GroupInfo &lookup(mlir::FlatSymbolRefAttr group) const {
    return groups[groupOf.lookup(group.getAttr())];
  }
  /// The group of a shard, of what a collective moves, or of fetched optimizer state.
  const GroupInfo &lookup(ShardType shard) const { return lookup(shard.getGroup()); }
  const GroupInfo &lookup(StateType state) const { return lookup(state.getGroup()); }
  /// The group of a parameter and its index there; null if the symbol is no parameter of a group.
  std::pair<const GroupInfo *, unsigned> lookupParam(mlir::FlatSymbolRefAttr param) const;
  bool isGroup(mlir::FlatSymbolRefAttr symbol) const { return groupOf.contains(symbol.getAttr()); }

private:
  std::vector<GroupInfo> groups;
  llvm::DenseMap<mlir::StringAttr, unsigned> groupOf;
  llvm::DenseMap<mlir::StringAttr, std::pair<unsigned, unsigned>> paramOf;
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_GROUPTABLE_H
