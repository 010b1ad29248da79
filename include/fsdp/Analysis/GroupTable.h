//===- GroupTable.h - The groups of a module and their layouts ---*- C++ -*-===//

#ifndef FSDP_ANALYSIS_GROUPTABLE_H
#define FSDP_ANALYSIS_GROUPTABLE_H

#include "fsdp/IR/Fsdp.h"
#include "fsdp/Plan/GroupLayout.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// The sizes of a group's parameters, gradients or states in one dtype. Sizes are bytes or
/// elements.
struct GroupForm {
  mlir::Type elementType;
  int64_t elementBytes = 0;
  unsigned numParams = 0;    // the group's first parameters
  int64_t shardElements = 0; // of one rank
  int64_t shardBytes = 0;    // of one rank
  int64_t wholeBytes = 0;    // of all ranks
};

/// A shard or a state of a group that lies on the host between steps. Sizes are bytes.
struct HostPart {
  BufferCategory category;
  unsigned index;       // LiveRange::index
  std::string name;     // "optimizer state 1"
  int64_t bytes;        // on the host
  int64_t fetchedBytes; // in the arena during the update: without frozen parameters

  /// True for the copy that is gathered. It is never fetched: the update writes all of it.
  bool isCopy() const { return category == BufferCategory::Shard && index == 1; }
};

/// A group with its parameters and layouts. Offsets are bytes unless their comment says elements.
struct GroupInfo {
  GroupOp op;
  unsigned index = 0;    // among the module's groups
  unsigned replicas = 1; // ranks that hold equal copies of each shard
  llvm::SmallVector<ParamOp> params;
  /// The parameters as they are updated and as they are gathered.
  GroupForm master, gathered;
  /// Parameters that are not frozen (the group's first ones): as they are updated, and their
  /// gradients as they are reduced.
  GroupForm updated, gradients;
  /// Each optimizer state of the shard, without frozen parameters. Empty for a frozen group.
  llvm::SmallVector<GroupForm, 3> states;
  plan::GroupLayout layout;
  plan::GroupLayout trained; // of the parameters that are not frozen, placed as in `layout`
  /// The layout of the chunks that stay after forward (`fsdp.chunk`) over their ranks. Without
  /// parameters if no chunk stays.
  plan::GroupLayout chunk;

  /// With an `all_gather_extension`: the offset (bytes) of each parameter's encoded bytes in an
  /// encoded shard. The elements of `gathered` are then bytes. Empty without an extension.
  llvm::SmallVector<int64_t> encodedBegins;

  /// True if the shard is encoded before its gathers.
  bool isEncoded() const {
    GroupOp group = op; // accessors of operations are not const
    return group.isEncoded();
  }
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
  /// Bytes of one rank's reduced gradients in `dtype`. Accumulated gradients may have another dtype
  /// than the result of a reduction.
  int64_t getGradientBytes(mlir::Type dtype) const;
  bool isFlat() const { return layout.layout == plan::Layout::Flat; }
  int64_t getStateBytes() const; // of all states
  mlir::FlatSymbolRefAttr getName() const {
    GroupOp group = op; // accessors of operations are not const
    return mlir::FlatSymbolRefAttr::get(group.getSymNameAttr());
  }
  /// True if no parameter has a gradient: nothing is reduced or updated.
  bool isFrozen() const { return gradients.numParams == 0; }
  /// True if the shard has a copy in another dtype, which is gathered in its place.
  bool hasGatherCopy() const { return !isEncoded() && gathered.elementType != master.elementType; }
  mlir::RankedTensorType getParamType(unsigned param) const {
    ParamOp op = params[param]; // accessors of operations are not const
    return mlir::cast<mlir::RankedTensorType>(op.getType());
  }
  int64_t getParamElements(unsigned param) const { return getParamType(param).getNumElements(); }
  /// The parts on the host: the shard, the optimizer states, the copy that is gathered. The offsets
  /// on the host, and those of the fetched copies in the arena, have this order.
  std::vector<HostPart> getHostParts() const;
  int64_t getFetchedBytes() const; // of all parts
  /// The offsets of a planned group's parts in the host's arena.
  llvm::SmallVector<int64_t> getHostPlaces() const;
  /// Describes a missing or superfluous offset of a planned group in the arena or on the host: "has
  /// no place for ..."; nullopt if all offsets are there.
  std::optional<std::string> explainPlaces() const;
  /// Offset of the parameter in the whole group. Valid in the flat layout and on one rank, where
  /// both layouts keep parameters whole.
  int64_t getParamBegin(unsigned param, const GroupForm &form) const {
    return layout.parameters[param].offset * form.elementBytes;
  }
  /// Offset of the next parameter, or the group's end. The bytes in between are padding.
  int64_t getParamEnd(unsigned param, const GroupForm &form) const {
    return param + 1 < form.numParams ? getParamBegin(param + 1, form) : form.wholeBytes;
  }
};

/// All groups of a sharded, scheduled or planned module, in order of declaration.
class GroupTable {
public:
  /// Diagnoses a group without parameters and a parameter without a group.
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
  /// The group of a shard, of a collective's result, or of fetched optimizer state.
  const GroupInfo &lookup(ShardType shard) const { return lookup(shard.getGroup()); }
  const GroupInfo &lookup(StateType state) const { return lookup(state.getGroup()); }
  /// The group of a parameter and its index there; null if no group has a parameter of this name.
  std::pair<const GroupInfo *, unsigned> lookupParam(mlir::FlatSymbolRefAttr param) const;
  bool isGroup(mlir::FlatSymbolRefAttr symbol) const { return groupOf.contains(symbol.getAttr()); }

private:
  std::vector<GroupInfo> groups;
  llvm::DenseMap<mlir::StringAttr, unsigned> groupOf;
  llvm::DenseMap<mlir::StringAttr, std::pair<unsigned, unsigned>> paramOf;
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_GROUPTABLE_H
