//===- FsdpCollectives.cpp - Shards, collectives and their waits ----------===//

#include "Handles.h"
#include "SymbolChecks.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace fsdp;

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// Which parameters of a group an operation has values of: all, or those with gradients.
enum class Members { All, Trained };

/// Checks that there is one value per parameter of the group, of the parameter's type, with element
/// type `dtype` if that is not null.
static LogicalResult checkGroupTypes(Operation *op, GroupOp group, Members members, TypeRange types,
                                     TypeAttr dtype, SymbolTableCollection &symbols) {
  FlatSymbolRefAttr groupName = FlatSymbolRefAttr::get(group.getSymNameAttr());
  SmallVector<ParamOp> params;
  for (auto symbol : group.getParams().getAsRange<FlatSymbolRefAttr>()) {
    FailureOr<ParamOp> param = resolve<ParamOp>(group, symbol, symbols, "parameter");
    if (failed(param))
      return failure();
    if (members == Members::All || !param->getFrozen())
      params.push_back(*param);
  }
  if (params.size() != types.size()) {
    InFlightDiagnostic diag = op->emitOpError("has ")
                              << types.size() << " values for group " << groupName << ", expected "
                              << params.size();
    if (params.size() != group.getParams().size())
      diag << ": " << group.getParams().size() - params.size() << " of its parameters are frozen";
    diag.attachNote(group.getLoc()) << "declared here";
    return diag;
  }
  for (auto [param, type] : llvm::zip_equal(params, types)) {
    auto expected = cast<RankedTensorType>(param.getType());
    if (dtype)
      expected = expected.clone(dtype.getValue());
    if (failed(checkType(op, cast<RankedTensorType>(type).cloneWithEncoding({}), expected,
                         "parameter", FlatSymbolRefAttr::get(param.getSymNameAttr()),
                         dtype ? group.getOperation() : param)))
      return failure();
  }
  return success();
}

/// The dtype of a group's parameters; null if it has none.
static Type getParamDtype(GroupOp group, SymbolTableCollection &symbols) {
  if (group.getParams().empty())
    return {};
  auto name = cast<FlatSymbolRefAttr>(group.getParams()[0]);
  auto param = dyn_cast_or_null<ParamOp>(symbols.lookupNearestSymbolFrom(group, name));
  return param ? cast<RankedTensorType>(param.getType()).getElementType() : Type();
}

/// The element type of a gathered shard: encoded, or in the gathers' dtype.
static Type getGatheredType(GroupOp group, Type own) {
  if (group.getAllGatherExtension())
    return IntegerType::get(group.getContext(), 8, IntegerType::Unsigned);
  return group.getGatherDtype() ? Type(*group.getGatherDtype()) : own;
}

/// Checks that the group of `type` is declared and that its shard has this dtype: that of `said`,
/// or the parameters' own.
static FailureOr<GroupOp> checkShard(Operation *op, ShardType type, SymbolTableCollection &symbols,
                                     TypeAttr (GroupOp::*said)(), bool isOwnAllowed = false) {
  FailureOr<GroupOp> group = resolve<GroupOp>(op, type.getGroup(), symbols, "group");
  if (failed(group))
    return failure();
  Type own = getParamDtype(*group, symbols);
  if (type.getRanks() != 0 && !isa<ChunkOp, AllGatherStartOp>(op))
    return op->emitOpError("has ")
           << type << ", which only '" << ChunkOp::getOperationName() << "' makes and only '"
           << AllGatherStartOp::getOperationName() << "' takes";
  TypeAttr dtype = (*group.*said)();
  Type expected = dtype ? dtype.getValue() : own;
  if (group->isEncoded() && isa<ShardOp, AllGatherStartOp>(op))
    expected = isa<ShardOp>(op) ? own : getGatheredType(*group, own);
  if (!own || type.getElementType() == expected || (isOwnAllowed && type.getElementType() == own))
    return group;
  InFlightDiagnostic diag = op->emitOpError("has a shard of ")
                            << type.getElementType() << " of group " << type.getGroup()
                            << ", expected " << expected;
  diag.attachNote(group->getLoc()) << "declared here";
  return diag;
}

/// Checks the axes of a collective of `group`.
static LogicalResult checkAxes(Operation *op, ArrayAttr axes, StringAttr expected, GroupOp group,
                               StringRef what) {
  if (axes.size() == 1 && axes[0] == expected)
    return success();
  InFlightDiagnostic diag = op->emitOpError("is over ")
                            << axes << ", but group @" << group.getSymName() << " is " << what;
  if (expected)
    diag << " over axis " << expected;
  diag.attachNote(group.getLoc()) << "declared here";
  return diag;
}

//===----------------------------------------------------------------------===//
// Shards
//===----------------------------------------------------------------------===//

LogicalResult ShardOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (getResult().getType().getGroup() != getGroupAttr())
    return emitOpError("of ") << getGroupAttr() << " yields " << getResult().getType();
  return checkShard(*this, getResult().getType(), symbols, &GroupOp::getGatherDtypeAttr,
                    /*isOwnAllowed=*/true);
}
void ShardOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getResult(), "s"); }

LogicalResult EncodeOp::verifySymbolUses(SymbolTableCollection &symbols) {
  ShardType source = getSource().getType();
  FailureOr<GroupOp> group = resolve<GroupOp>(*this, source.getGroup(), symbols, "group");
  if (failed(group))
    return failure();
  if (!group->isEncoded()) {
    InFlightDiagnostic diag =
        emitOpError("encodes a shard of group ")
        << source.getGroup() << ", which has no all_gather_extension and is not gathered as float8";
    diag.attachNote(group->getLoc()) << "declared here";
    return diag;
  }
  if (bool(getAmax()) != group->isGatheredAsFloat8())
    return emitOpError("of group ")
           << source.getGroup()
           << (getAmax() ? " takes the amax of parameters, which its all_gather_extension does not"
                         : " lacks the amax of the parameters, by which it casts them to float8");
  Type own = getParamDtype(*group, symbols);
  auto expected = ShardType::get(getContext(), source.getGroup(), own);
  if (own && source != expected)
    return emitOpError("encodes ") << source << ", expected " << expected;
  return checkYields(*this, getResult().getType(),
                     ShardType::get(getContext(), source.getGroup(), getGatheredType(*group, own)),
                     *group);
}
void EncodeOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getResult(), "q"); }

LogicalResult PartialAmaxOp::verifySymbolUses(SymbolTableCollection &symbols) {
  int64_t numParams = 0;
  for (Value shard : getShards()) {
    auto type = cast<ShardType>(shard.getType());
    FailureOr<GroupOp> group = resolve<GroupOp>(*this, type.getGroup(), symbols, "group");
    if (failed(group))
      return failure();
    if (!group->isGatheredAsFloat8()) {
      InFlightDiagnostic diag = emitOpError("takes a shard of group ")
                                << type.getGroup() << ", which is not gathered as float8";
      diag.attachNote(group->getLoc()) << "declared here";
      return diag;
    }
    numParams += group->getParams().size();
  }
  auto expected = RankedTensorType::get({numParams}, Float32Type::get(getContext()));
  if (getResult().getType() == expected)
    return success();
  return emitOpError("yields ") << getResult().getType() << ", expected " << expected
                                << ": one number for each parameter of its groups";
}
void PartialAmaxOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getResult(), "part"); }

LogicalResult AmaxOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return resolve<ParamOp>(*this, getParamAttr(), symbols, "parameter");
}
void AmaxOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getResult(), "amax"); }

LogicalResult PackOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (getResult().getType().getGroup() != getGroupAttr())
    return emitOpError("of ") << getGroupAttr() << " yields " << getResult().getType();
  FailureOr<GroupOp> group =
      checkShard(*this, getResult().getType(), symbols, &GroupOp::getReduceDtypeAttr);
  if (failed(group))
    return failure();
  return checkGroupTypes(*this, *group, Members::Trained, getGrads().getTypes(),
                         group->getReduceDtypeAttr(), symbols);
}
void PackOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getResult(), "d"); }

LogicalResult AllReduceHookOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<GroupOp> group =
      resolve<GroupOp>(*this, getSource().getType().getGroup(), symbols, "group");
  if (failed(group) || group->getAllReduceHook())
    return group;
  InFlightDiagnostic diag = emitOpError("is of group ")
                            << getSource().getType().getGroup() << ", which has no all_reduce_hook";
  diag.attachNote(group->getLoc()) << "declared here";
  return diag;
}
void AllReduceHookOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getResult(), "h"); }

LogicalResult CastOp::verify() {
  if (getSource().getType().getGroup() == getResult().getType().getGroup())
    return success();
  return emitOpError("makes a shard of ")
         << getResult().getType().getGroup() << " from one of " << getSource().getType().getGroup();
}
LogicalResult CastOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<GroupOp> group =
      resolve<GroupOp>(*this, getResult().getType().getGroup(), symbols, "group");
  if (failed(group))
    return failure();
  return checkYields(*this, getResult().getType(),
                     ShardType::get(getContext(), getResult().getType().getGroup(),
                                    getParamDtype(*group, symbols)),
                     *group);
}
void CastOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getResult(), "c"); }

LogicalResult AccumulateOp::verify() {
  auto sum = dyn_cast<ShardType>(getSum().getType());
  auto gradient = dyn_cast<ShardType>(getGradient().getType());
  if (!sum && !gradient) {
    auto whole = cast<RankedTensorType>(getSum().getType());
    auto added = cast<RankedTensorType>(getGradient().getType());
    if (whole.getShape() == added.getShape() && isa<FloatType>(whole.getElementType()) &&
        isa<FloatType>(added.getElementType()))
      return success();
    return emitOpError("adds ") << added << " to " << whole;
  }
  if (!sum || !gradient || sum.getGroup() != gradient.getGroup())
    return emitOpError("adds ") << getGradient().getType() << " to " << getSum().getType();
  auto countBits = [](ShardType type) { return type.getElementType().getIntOrFloatBitWidth(); };
  if (countBits(gradient) > countBits(sum))
    return emitOpError("adds ") << gradient.getElementType() << " to " << sum.getElementType()
                                << ", which is narrower";
  return success();
}
void AccumulateOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getResult(), "e"); }

AllGatherStartOp ChunkOp::getGather() {
  auto wait = getParams().empty() ? AllGatherWaitOp()
                                  : getParams().front().getDefiningOp<AllGatherWaitOp>();
  return wait ? wait.getStart() : AllGatherStartOp();
}
void ChunkOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getResult(), "k"); }

LogicalResult ChunkOp::verifySymbolUses(SymbolTableCollection &symbols) {
  ShardType type = getResult().getType();
  FailureOr<GroupOp> group = checkShard(*this, type, symbols, &GroupOp::getGatherDtypeAttr);
  if (failed(group))
    return failure();
  AllGatherStartOp gather = getGather();
  if (!gather || gather.getGroupAttr() != type.getGroup() ||
      !llvm::equal(getParams(), getParams().front().getDefiningOp()->getResults()))
    return emitOpError("makes a chunk of group ")
           << type.getGroup() << ", but takes other values than one of its gathers yields";
  int64_t asked = group->getReshardRanks().value_or(0);
  if (type.getRanks() == asked && asked != 0)
    return success();
  InFlightDiagnostic diag = emitOpError("cuts group ")
                            << type.getGroup() << " over " << type.getRanks() << " ranks, expected "
                            << asked;
  diag.attachNote(group->getLoc()) << "declared here";
  return diag;
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

StringRef AllGatherStartOp::getCollectiveKind() { return "all_gather"; }
Type AllGatherStartOp::getPayload() { return getShardType(); }
ShardType AllGatherStartOp::getShardType() {
  auto onHost = dyn_cast<HostType>(getShard().getType());
  return cast<ShardType>(onHost ? onHost.getValue() : getShard().getType());
}
LogicalResult AllGatherStartOp::verify() {
  auto onHost = dyn_cast<HostType>(getShard().getType());
  auto chunk = onHost ? dyn_cast<ShardType>(onHost.getValue()) : ShardType();
  if (!onHost || (chunk && chunk.getRanks() != 0))
    return success();
  return emitOpError("takes ") << onHost << ", expected a shard, or a chunk on the host";
}
void AllGatherStartOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getHandle(), "u"); }
AllGatherWaitOp AllGatherStartOp::getWait() { return findUser<AllGatherWaitOp>(getHandle()); }
ReshardOp AllGatherStartOp::getReshard() { return findUser<ReshardOp>(getHandle()); }

LogicalResult AllGatherStartOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (getShardType().getRanks() != 0 && getTransport() != Transport::Kernels)
    return emitOpError("gathers a chunk by ")
           << stringifyTransport(getTransport()) << ", expected kernels";
  FailureOr<GroupOp> group =
      checkShard(*this, getShardType(), symbols, &GroupOp::getGatherDtypeAttr);
  if (failed(group))
    return failure();
  return checkAxes(*this, getAxes(), group->getAxisAttr(), *group, "sharded");
}

LogicalResult AllGatherWaitOp::verify() {
  return checkHandle<AllGatherStartOp>(*this, getHandle());
}
AllGatherStartOp AllGatherWaitOp::getStart() {
  return cast<AllGatherStartOp>(getHandle().getDefiningOp());
}

LogicalResult AllGatherWaitOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<GroupOp> group = resolve<GroupOp>(*this, getStart().getGroupAttr(), symbols, "group");
  if (failed(group))
    return failure();
  return checkGroupTypes(*this, *group, Members::All, getResultTypes(), group->getGatherDtypeAttr(),
                         symbols);
}

void AllGatherWaitOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  if (getNumResults() != 0)
    setName(getResult(0), "w");
}

LogicalResult ReshardOp::verify() { return checkHandle<AllGatherStartOp>(*this, getHandle()); }
AllGatherStartOp ReshardOp::getStart() {
  return cast<AllGatherStartOp>(getHandle().getDefiningOp());
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

StringRef ReduceScatterStartOp::getCollectiveKind() { return "reduce_scatter"; }
void ReduceScatterStartOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getHandle(), "r");
}

Type ReduceScatterStartOp::getPayload() {
  Type element = getGrads().empty()
                     ? Type(Float32Type::get(getContext()))
                     : cast<RankedTensorType>(getGrads().front().getType()).getElementType();
  return ShardType::get(getContext(), getGroupAttr(), element);
}

ReduceScatterWaitOp ReduceScatterStartOp::getWait() {
  return findUser<ReduceScatterWaitOp>(getHandle());
}
AllReduceStartOp ReduceScatterStartOp::getAcross() {
  return findUser<AllReduceStartOp>(getHandle());
}

Value ReduceScatterStartOp::getReduced() {
  if (AllReduceStartOp across = getAcross()) {
    AllReduceWaitOp wait = across.getWait();
    return wait ? wait.getResult() : Value();
  }
  ReduceScatterWaitOp wait = getWait();
  return wait ? wait.getResult() : Value();
}

UpdateOp ReduceScatterStartOp::getUpdate() {
  Value reduced = getReduced();
  return reduced ? findUser<UpdateOp>(reduced) : UpdateOp();
}

LogicalResult ReduceScatterStartOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<GroupOp> group = resolve<GroupOp>(*this, getGroupAttr(), symbols, "group");
  if (failed(group) || failed(checkAxes(*this, getAxes(), group->getAxisAttr(), *group, "sharded")))
    return failure();
  return checkGroupTypes(*this, *group, Members::Trained, getGrads().getTypes(),
                         group->getReduceDtypeAttr(), symbols);
}

LogicalResult ReduceScatterWaitOp::verify() {
  if (failed(checkHandle<ReduceScatterStartOp>(*this, getHandle())))
    return failure();
  return checkYields(*this, getResult().getType(), getStart().getPayload(), getStart());
}
ReduceScatterStartOp ReduceScatterWaitOp::getStart() {
  return cast<ReduceScatterStartOp>(getHandle().getDefiningOp());
}
void ReduceScatterWaitOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), "d");
}

LogicalResult AllReduceStartOp::verify() {
  if (isa<HandleType>(getSource().getType()))
    return checkHandle<ReduceScatterStartOp>(*this, getSource());
  return success();
}

LogicalResult AllReduceStartOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto shard = dyn_cast<ShardType>(getPayload());
  if (!shard) {
    // For a tensor: distinct axes of one mesh.
    auto module = (*this)->getParentOfType<ModuleOp>();
    auto areAxesOf = [&](MeshOp mesh) {
      llvm::SmallDenseSet<Attribute> seen;
      return llvm::all_of(getAxes(), [&](Attribute axis) {
        return llvm::is_contained(mesh.getAxes(), axis) && seen.insert(axis).second;
      });
    };
    auto meshes = module.getOps<MeshOp>();
    if (!meshes.empty() && llvm::none_of(meshes, areAxesOf)) {
      InFlightDiagnostic diag = emitOpError("is over ")
                                << getAxes() << ", expected axes of the mesh, each once";
      for (MeshOp mesh : meshes)
        diag.attachNote(mesh.getLoc()) << "declared here";
      return diag;
    }
    return getAxes().empty() ? emitOpError("is over no axis") : success();
  }
  FailureOr<GroupOp> group = resolve<GroupOp>(*this, shard.getGroup(), symbols, "group");
  if (failed(group))
    return failure();
  return checkAxes(*this, getAxes(), group->getReplicateAxisAttr(), *group,
                   group->getReplicateAxis() ? "replicated" : "not replicated");
}

StringRef AllReduceStartOp::getCollectiveKind() { return "all_reduce"; }
void AllReduceStartOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getHandle(), isa<RankedTensorType>(getPayload()) ? "n" : "a");
}
Type AllReduceStartOp::getPayload() {
  if (auto reduction = getSource().getDefiningOp<ReduceScatterStartOp>())
    return reduction.getPayload();
  return getSource().getType();
}
Value AllReduceStartOp::getPredecessor() {
  return isa<HandleType>(getSource().getType()) ? getSource() : Value();
}
AllReduceWaitOp AllReduceStartOp::getWait() { return findUser<AllReduceWaitOp>(getHandle()); }

LogicalResult AllReduceWaitOp::verify() {
  if (failed(checkHandle<AllReduceStartOp>(*this, getHandle())))
    return failure();
  return checkYields(*this, getResult().getType(), getStart().getPayload(), getStart());
}
AllReduceStartOp AllReduceWaitOp::getStart() {
  return cast<AllReduceStartOp>(getHandle().getDefiningOp());
}
void AllReduceWaitOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), isa<RankedTensorType>(getResult().getType()) ? "total" : "f");
}

//===----------------------------------------------------------------------===//
// Clipping
//===----------------------------------------------------------------------===//

void PartialNormOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getResult(), "part"); }
LogicalResult ShardNormOp::verify() {
  auto expected = ShardNormType::get(getContext(), getGradient().getType().getGroup());
  if (getResult().getType() == expected)
    return success();
  return emitOpError("yields ") << getResult().getType() << ", expected " << expected;
}
void ShardNormOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getResult(), "n"); }
void ClipFactorOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getFactor(), "clip"); }
