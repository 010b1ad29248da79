//===- LowerDeclarations.cpp - Header, groups and buffers of a plan -------===//

#include "Lowering.h"
#include "fsdp/Analysis/OptimizerValues.h"
#include "fsdp/CostModel/OperatorWork.h"
#include "fsdp/IR/OptimizerOptions.h"

using namespace mlir;
using namespace fsdp;

LogicalResult Lowering::countModelFlops() {
  fsdp_plan &header = builder.tables.header;
  step.walk([&](aten::CallOp call) { header.model_flops += cost::countWork(call).flops; });
  auto again = module->getAttrOfType<IntegerAttr>(FsdpDialect::getRecomputedFlopsAttrName());
  if (!again || isEvaluation)
    return success();
  double recomputed = static_cast<double>(again.getInt()) * header.num_microbatches;
  if (recomputed > header.model_flops)
    return module.emitError("attribute '")
           << FsdpDialect::getRecomputedFlopsAttrName() << "' says that " << recomputed
           << " operations are computed again, but the step has " << header.model_flops;
  header.model_flops -= recomputed;
  return success();
}

LogicalResult Lowering::lowerHeader() {
  fsdp_plan &header = builder.tables.header;
  auto integer = [&](StringRef name) {
    auto attribute = module->getAttrOfType<IntegerAttr>(name);
    return attribute ? std::optional(attribute.getInt()) : std::nullopt;
  };
  std::optional<int64_t> arena = integer(FsdpDialect::getArenaAttrName());
  std::optional<int64_t> peak = integer(FsdpDialect::getPeakAttrName());
  if (!arena || !peak)
    return module.emitError("a planned module needs the attributes '")
           << FsdpDialect::getArenaAttrName() << "' and '" << FsdpDialect::getPeakAttrName() << "'";
  header.arena_bytes = *arena;
  header.peak_live_bytes = *peak;
  bool readsHost = llvm::any_of(groups.getGroups(), [](const GroupInfo &group) {
    return GroupOp(group.op).areParametersOnHost();
  });
  if (!isEvaluation || readsHost)
    header.host_arena_bytes = integer(FsdpDialect::getHostArenaAttrName()).value_or(0);
  header.step_kind = isEvaluation ? FSDP_EVALUATION : FSDP_TRAINING;
  if (auto model = module->getAttrOfType<StringAttr>(FsdpDialect::getModelAttrName()))
    header.model = builder.addString(model);
  auto accumulation =
      module->getAttrOfType<AccumulationAttr>(FsdpDialect::getAccumulationAttrName());
  header.num_microbatches = accumulation ? accumulation.getMicrobatches() : 1;
  if (failed(countModelFlops()))
    return failure();
  if (!isEvaluation)
    header.bound_ns = static_cast<double>(integer(FsdpDialect::getBoundAttrName()).value_or(0));
  header.world_size = declared.getWorldSize();
  header.replicas = 1;
  if (!declared.meshes.empty()) {
    MeshOp mesh = declared.meshes.front();
    SmallVector<StringRef> axes(mesh.getAxes().getAsValueRange<StringAttr>());
    header.replicas = header.world_size / mesh.getSizes().back();
    header.axis = builder.addString(axes.back());
    header.replicate_axis = builder.addString(axes.size() > 1 ? axes.front() : "");
  }
  for (const Communicator &communicator : communicators.getCommunicators())
    builder.tables.communicators.push_back(
        {builder.addString(communicator.name), builder.addString(communicator.axes),
         communicator.meeting.ranks, communicator.meeting.stride,
         static_cast<uint32_t>(getPlanStream(communicator.stream)),
         communicator.transport == Transport::CopyEngine});
  FailureOr<OptimizerTable> optimizers = OptimizerTable::build(module);
  if (failed(optimizers))
    return failure();
  header.optimizer = optimizers->getValues().front();
  llvm::append_range(builder.tables.optimizerGroups, optimizers->getValues().drop_front());
  OptimizerOp optimizer = *module.getOps<OptimizerOp>().begin();
  if (optimizer.needsNorm() && !isEvaluation)
    header.clip_norm_type = static_cast<uint32_t>(optimizer.getClipNormType());
  if (optimizer.getClipGradNorm() && !isEvaluation)
    header.clip_grad_norm = optimizer.getClipGradNorm()->convertToDouble();
  if (std::optional<LossScaling> scaling = readLossScaling(optimizer); scaling && !isEvaluation)
    header.loss_scale = {scaling->init, scaling->growthFactor, scaling->backoffFactor,
                         scaling->growthInterval};

  for (const GroupInfo &group : groups.getGroups())
    if (failed(lowerGroup(group)))
      return failure();
  // In the order of the plan's parameters.
  fsdp_parameter *parameter = builder.tables.parameters.data();
  for (const GroupInfo &group : groups.getGroups())
    for (ParamOp param : group.params)
      (parameter++)->optimizer = optimizers->getIndex(param.getSymNameAttr());
  for (auto buffer : module.getOps<BufferOp>())
    if (failed(lowerBuffer(buffer)))
      return failure();
  return success();
}

LogicalResult Lowering::lowerGroup(const GroupInfo &info) {
  PlanTables &tables = builder.tables;
  GroupOp op = info.op;
  if (std::optional<std::string> wrong = info.explainPlaces())
    return op.emitOpError("@") << op.getSymName() << ' ' << *wrong;
  PlacesAttr places = op.getPlacesAttr();

  fsdp_group &group = tables.groups.emplace_back();
  group.name = builder.addString(op.getSymName());
  group.dtype = *getPlanDType(info.master.elementType);
  group.gather_dtype =
      *getPlanDType(info.isEncoded() ? info.master.elementType : info.gathered.elementType);
  group.reduce_dtype = *getPlanDType(info.gradients.elementType);
  group.layout = info.isFlat() ? FSDP_LAYOUT_FLAT : FSDP_LAYOUT_PER_PARAM;
  group.first_parameter = tables.parameters.size();
  group.num_parameters = info.params.size();
  group.shards = info.getShards();
  group.shard_elements = info.layout.shardElements;
  group.trained_elements = info.trained.shardElements;
  group.shard = places.getShard().value_or(-1);
  llvm::fill(group.state, -1);
  llvm::fill(group.state_dtype, group.dtype);
  for (auto [dtype, state] : llvm::zip(group.state_dtype, info.states))
    dtype = *getPlanDType(state.elementType);
  if (!isEvaluation)
    llvm::copy(places.getStates(), group.state);
  group.gather_shard = places.getCopy().value_or(group.shard);
  group.parameters_on_host = op.areParametersOnHost();
  group.host_shard = places.getHostShard().value_or(-1);
  group.host_gather_shard = places.getHostCopy().value_or(group.host_shard);
  llvm::fill(group.host_state, -1);
  if (isEvaluation)
    return lowerParameters(info);
  group.state_on_host = op.isStateOnHost();
  llvm::copy(places.getHostStates().take_front(FSDP_MAX_KEPT_STATES), group.host_state);
  return lowerParameters(info);
}

/// The aliases' place in the plan's integers, and their number.
static std::pair<uint32_t, uint32_t> addAliases(PlanBuilder &builder, ArrayAttr aliases) {
  SmallVector<int64_t> strings;
  if (aliases)
    for (StringRef alias : aliases.getAsValueRange<StringAttr>())
      strings.push_back(builder.addString(alias));
  return {builder.addIntegers(strings), static_cast<uint32_t>(strings.size())};
}

LogicalResult Lowering::lowerParameters(const GroupInfo &info) {
  PlanTables &tables = builder.tables;
  GroupOp op = info.op;
  for (unsigned i = 0; i < info.params.size(); ++i) {
    ParamOp param = info.params[i];
    RankedTensorType type = info.getParamType(i);
    fsdp_parameter &parameter = tables.parameters.emplace_back();
    parameter.name = builder.addString(param.getSymName());
    parameter.group = info.index;
    parameter.dtype = *getPlanDType(type.getElementType());
    parameter.num_dims = type.getRank();
    parameter.first_size = builder.addIntegers(type.getShape());
    parameter.shard_dim = op.getShardDim(i);
    std::tie(parameter.first_alias, parameter.num_aliases) =
        addAliases(builder, param.getAliasesAttr());
    parameter.first_piece = tables.pieces.size();
    for (const plan::Piece &piece : info.layout.parameters[i].pieces) {
      fsdp_piece &lowered = tables.pieces.emplace_back();
      lowered.rank = piece.rank;
      lowered.parameter = tables.parameters.size() - 1;
      lowered.first = piece.first;
      lowered.count = piece.count;
      lowered.shard_offset = piece.shardOffset;
    }
    parameter.num_pieces = tables.pieces.size() - parameter.first_piece;
  }
  return success();
}

LogicalResult Lowering::lowerBuffer(BufferOp buffer) {
  FailureOr<int64_t> offset = getOffset(buffer, buffer.getOffset());
  auto type = cast<RankedTensorType>(buffer.getType());
  if (failed(offset))
    return failure();
  if (!getPlanDType(type.getElementType()))
    return buffer.emitOpError("@") << buffer.getSymName() << " has element type "
                                   << type.getElementType() << ", which plans cannot hold";
  uint32_t value = builder.addValue(type, *offset, buffer.getSymName());
  bufferValue[buffer.getSymNameAttr()] = value;
  auto [firstAlias, numAliases] = addAliases(builder, buffer.getAliasesAttr());
  builder.tables.buffers.push_back(
      {builder.addString(buffer.getSymName()), value, firstAlias, numAliases});
  if (buffer.getInit() && !builder.addConstant(value, *buffer.getInit()))
    return buffer.emitOpError("@") << buffer.getSymName() << " has an init that holds no data";
  return success();
}
