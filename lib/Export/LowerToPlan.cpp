//===- LowerToPlan.cpp - From a planned module to the plan's tables -------===//

#include "fsdp/Export/LowerToPlan.h"

#include "Lowering.h"
#include "fsdp/Analysis/GradientDivision.h"
#include "fsdp/Analysis/Program.h"
#include "fsdp/Analysis/StepStorage.h"
#include "fsdp/IR/TensorLayout.h"
#include "fsdp/IR/VisitByClass.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fsdp;

fsdp_stream fsdp::getPlanStream(Stream stream) {
  switch (stream) {
  case Stream::Compute:
    return FSDP_COMPUTE;
  case Stream::Gather:
    return FSDP_GATHER;
  case Stream::Reduce:
    return FSDP_REDUCE;
  case Stream::Replicate:
    return FSDP_REPLICATE;
  }
  llvm_unreachable("all streams are listed");
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

LogicalResult Lowering::define(Value value, int64_t base) {
  auto type = cast<RankedTensorType>(value.getType());
  if (!getPlanDType(type.getElementType()))
    return value.getDefiningOp()->emitOpError("yields element type ")
           << type.getElementType() << ", which plans cannot hold";
  std::string name;
  llvm::raw_string_ostream os(name);
  value.printAsOperand(os, names);
  valueOf[value] = builder.addValue(type, base, name);
  baseOf[value] = base;
  return success();
}

FailureOr<int64_t> Lowering::getOffset(Operation *op, std::optional<int64_t> offset) {
  if (!offset || *offset < 0)
    return op->emitOpError("has no arena offset; run fsdp-plan-memory");
  return *offset;
}

LogicalResult Lowering::lower(InputOp input) {
  if (!isa<RankedTensorType>(input.getType()))
    return success(); // step and lr: known to the runtime
  FailureOr<int64_t> offset = getOffset(input, input.getOffset());
  if (failed(offset) || failed(define(input.getResult(), *offset)))
    return failure();
  builder.tables.inputs.push_back({builder.addString(input.getName()), valueOf[input.getResult()],
                                   static_cast<uint32_t>(input.getMicrobatch()), /*reserved=*/0});
  return success();
}

LogicalResult Lowering::lower(LossScaleOp scale) {
  FailureOr<int64_t> offset = getOffset(scale, scale.getOffset());
  if (failed(offset) || failed(define(scale.getResult(), *offset)))
    return failure();
  builder.tables.header.loss_scale_value = valueOf[scale.getResult()];
  return success();
}

LogicalResult Lowering::lower(aten::ConstantOp constant) {
  FailureOr<int64_t> offset = getOffset(constant, constant.getOffset());
  if (failed(offset) || failed(define(constant.getResult(), *offset)))
    return failure();
  if (!builder.addConstant(valueOf[constant.getResult()], constant.getValue()))
    return constant.emitOpError("holds no data");
  return success();
}

LogicalResult Lowering::lower(ReadOp read) {
  if (auto [group, param] = groups.lookupParam(read.getSourceAttr()); group)
    return define(read.getResult(), builder.tables.groups[group->index].shard +
                                        group->getParamBegin(param, group->master));
  uint32_t value = bufferValue.lookup(read.getSourceAttr().getAttr());
  valueOf[read.getResult()] = value;
  baseOf[read.getResult()] = builder.tables.values[value].offset;
  return success();
}

//===----------------------------------------------------------------------===//
// Collectives, gradients and updates
//===----------------------------------------------------------------------===//

fsdp_entry &Lowering::addStart(fsdp_entry_kind kind, CollectiveOpInterface start) {
  fsdp_entry &entry = builder.addEntry(kind, getPlanPhase(start.getPhase()));
  entry.stream = getPlanStream(start.getStream());
  entry.communicator = communicators.lookup(start, declared.getMesh(start));
  entry.handle = handleOf[start->getResult(0)] = builder.tables.header.num_handles++;
  entry.coalesced = start.getCoalesced();
  entry.location = builder.addLocation(start.getLoc());
  return entry;
}

fsdp_entry &Lowering::addStart(fsdp_entry_kind kind, CollectiveOpInterface start,
                               const GroupInfo &group, const GroupForm &form) {
  fsdp_entry &entry = addStart(kind, start);
  entry.dtype = *getPlanDType(form.elementType);
  entry.target = group.index;
  entry.bytes = form.shardBytes;
  entry.count = form.shardElements;
  return entry;
}

static fsdp_reduce_op getPlanReduceOp(ReduceOp op) {
  switch (op) {
  case ReduceOp::Average:
    return FSDP_AVERAGE;
  case ReduceOp::Sum:
    return FSDP_SUM;
  case ReduceOp::PremulSum:
    return FSDP_PREMUL_SUM;
  case ReduceOp::Max:
    break; // only of norms, which have entries of their own
  }
  llvm_unreachable("the verifier admits no such reduction of gradients");
}

template <typename StartOp> void Lowering::setReduction(fsdp_entry &entry, StartOp start) {
  const Reduction reduction = getReduction(start);
  auto divisor = [](double value) { return value == 1 ? 0 : value; };
  entry.reduce_op = getPlanReduceOp(reduction.op);
  entry.predivide = divisor(reduction.predivide);
  entry.postdivide = divisor(reduction.postdivide);
}

void Lowering::addWait(Operation *wait, fsdp_phase phase) {
  fsdp_entry &entry = builder.addEntry(FSDP_WAIT, phase);
  entry.handle = handleOf.lookup(wait->getOperand(0));
  entry.location = builder.addLocation(wait->getLoc());
}

LogicalResult Lowering::lower(ShardOp shard) {
  const GroupInfo &info = groups.lookup(shard.getResult().getType());
  const fsdp_group &group = builder.tables.groups[info.index];
  bool isCopy = shard.getResult().getType().getElementType() != info.master.elementType;
  if (group.parameters_on_host) // offsets in the host's arena
    baseOf[shard.getResult()] = isCopy ? group.host_gather_shard : group.host_shard;
  else
    baseOf[shard.getResult()] = isCopy ? group.gather_shard : group.shard;
  return success();
}

LogicalResult Lowering::lower(AllGatherStartOp start) {
  FailureOr<int64_t> offset = getOffset(start, start.getOffset());
  if (failed(offset))
    return failure();
  const GroupInfo &group = groups.lookup(start.getShardType());
  fsdp_entry &entry = addStart(FSDP_ALL_GATHER_START, start, group, group.gathered);
  if (group.isEncoded())
    entry.dtype = FSDP_U8;
  if (CollectiveOpInterface(start).getNeighbours()) {
    entry.count = group.chunk.shardElements;
    entry.bytes = group.getChunkBytes();
    entry.from_host = start.isFromHost();
  } else {
    entry.from_host = GroupOp(group.op).areParametersOnHost();
  }
  entry.source = baseOf.lookup(start.getShard());
  entry.destination = baseOf[start.getHandle()] = *offset;
  return success();
}

LogicalResult Lowering::lower(ChunkOp chunk) {
  FailureOr<int64_t> offset = getOffset(chunk, chunk.getOffset());
  if (failed(offset))
    return failure();
  ShardType type = chunk.getResult().getType();
  const GroupInfo &group = groups.lookup(type);
  builder.tables.groups[group.index].chunk_ranks = type.getRanks();
  std::vector<int64_t> params;
  for (auto [index, param] : llvm::enumerate(chunk.getParams())) {
    if (ParamOp op = group.params[index]; !isContiguous(cast<RankedTensorType>(param.getType())))
      return chunk.emitOpError("takes parameter @")
             << op.getSymName() << " with strides of its own, of which plans copy no chunks";
    params.push_back(valueOf.lookup(param));
  }
  fsdp_entry &entry = builder.addEntry(FSDP_CHUNK, getChunkPhase(chunk));
  entry.dtype = *getPlanDType(type.getElementType());
  entry.target = group.index;
  entry.destination = baseOf[chunk.getResult()] = *offset;
  entry.bytes = group.getChunkBytes();
  entry.count = group.chunk.shardElements;
  entry.first_result = builder.addIntegers(params);
  entry.num_results = params.size();
  entry.location = builder.addLocation(chunk.getLoc());
  return success();
}

LogicalResult Lowering::lower(AllGatherWaitOp wait) {
  AllGatherStartOp start = wait.getStart();
  const GroupInfo &group = groups.lookup(start.getShardType());
  const plan::GroupLayout &layout = group.getLayout(start.getShardType());
  int64_t gathered = baseOf.lookup(wait.getHandle());
  fsdp_phase phase = getPlanPhase(start.getPhase());
  addWait(wait, phase);
  if (!group.isFlat() && (!wait.getOffsets() || wait.getOffsets()->size() != group.params.size()))
    return wait.emitOpError("needs one offset per parameter in the per-param layout");
  if (!group.encodedBegins.empty())
    return decode(wait, group, gathered);
  for (auto [i, value] : llvm::enumerate(wait.getResults())) {
    int64_t base = group.isFlat() ? gathered + group.getParamBegin(i, group.gathered)
                                  : (*wait.getOffsets())[i];
    if (failed(define(value, base)))
      return failure();
    if (!group.isFlat())
      forEachRankPart(group, layout, i, cast<RankedTensorType>(value.getType()), base, gathered,
                      [&](uint32_t full, uint32_t inRanks) {
                        addCopy(phase, inRanks, full, getModuleName(group), wait.getLoc());
                      });
  }
  return success();
}

LogicalResult Lowering::lower(ReshardOp reshard) {
  fsdp_entry &entry = builder.addEntry(FSDP_RELEASE, getPlanPhase(reshard.getPhase()));
  entry.target = groups.lookup(reshard.getStart().getGroupAttr()).index;
  entry.location = builder.addLocation(reshard.getLoc());
  return success();
}

void Lowering::packGradients(const GroupInfo &group, ValueRange gradients, int64_t base,
                             Location location) {
  for (auto [i, gradient] : llvm::enumerate(gradients))
    placeGradient(group, i, gradient, base, location);
  zeroPadding(group, base);
}

LogicalResult Lowering::lower(PackOp pack) {
  FailureOr<int64_t> base = getOffset(pack, pack.getOffset());
  if (failed(base))
    return failure();
  const GroupInfo &group = groups.lookup(pack.getGroupAttr());
  packGradients(group, pack.getGrads(), *base, pack.getLoc());
  baseOf[pack.getResult()] = *base;
  if (pack.getDivisor() != 1)
    divideInPlace(getShardValue(pack.getResult()), pack.getDivisor(), getModuleName(group),
                  pack.getLoc());
  return success();
}

uint32_t Lowering::getShardValue(Value shard) {
  const GroupInfo &group = groups.lookup(cast<ShardType>(shard.getType()));
  Type element = cast<ShardType>(shard.getType()).getElementType();
  return builder.addStridedValue(*getPlanDType(element), {group.updated.shardElements}, {1},
                                 baseOf.lookup(shard), group.getName().getValue());
}

LogicalResult Lowering::lower(CastOp cast) {
  FailureOr<int64_t> offset = getOffset(cast, cast.getOffset());
  if (failed(offset))
    return failure();
  baseOf[cast.getResult()] = *offset;
  addCopy(FSDP_BACKWARD, getShardValue(cast.getSource()), getShardValue(cast.getResult()),
          getModuleName(groups.lookup(cast.getResult().getType())), cast.getLoc());
  return success();
}

LogicalResult Lowering::lower(AccumulateOp sum) {
  auto shard = dyn_cast<ShardType>(sum.getSum().getType());
  auto getValue = [&](Value value) { return shard ? getShardValue(value) : valueOf.lookup(value); };
  uint32_t source = getValue(sum.getGradient()), destination = getValue(sum.getSum());
  fsdp_entry &entry = builder.addEntry(FSDP_ACCUMULATE, FSDP_BACKWARD);
  entry.source_value = source;
  entry.destination_value = destination;
  if (shard)
    entry.module = builder.addString(getModuleName(groups.lookup(shard)));
  entry.location = builder.addLocation(sum.getLoc());
  baseOf[sum.getResult()] = baseOf.lookup(sum.getSum());
  if (!shard)
    valueOf[sum.getResult()] = destination;
  return success();
}

LogicalResult Lowering::lower(ReduceScatterStartOp start) {
  // The starts of a bucket are adjacent: all inputs are ready before the first one.
  if (!start.getCoalesced()) {
    ReduceScatterStartOp member = start;
    do {
      if (!member.getOffsets() || member.getOffsets()->size() != 2)
        return member.emitOpError("needs the offsets of its input and its output");
      packGradients(groups.lookup(member.getGroupAttr()), member.getGrads(),
                    (*member.getOffsets())[0], member.getLoc());
      member = dyn_cast<ReduceScatterStartOp>(member->getNextNode());
    } while (member && member.getCoalesced());
  }
  const GroupInfo &group = groups.lookup(start.getGroupAttr());
  fsdp_entry &entry = addStart(FSDP_REDUCE_SCATTER_START, start, group, group.gradients);
  setReduction(entry, start);
  entry.source = (*start.getOffsets())[0];
  entry.destination = baseOf[start.getHandle()] = (*start.getOffsets())[1];
  return success();
}

LogicalResult Lowering::lower(ReduceScatterWaitOp wait) {
  addWait(wait, getPlanPhase(wait.getStart().getPhase()));
  baseOf[wait.getResult()] = baseOf.lookup(wait.getHandle());
  return success();
}

LogicalResult Lowering::lower(AllReduceStartOp start) {
  int64_t base = baseOf[start.getHandle()] = baseOf.lookup(start.getSource());
  auto shard = dyn_cast<ShardType>(start.getPayload());
  if (!shard)
    return lowerTensorReduction(start);
  const GroupInfo &group = groups.lookup(shard);
  fsdp_entry &entry = addStart(FSDP_ALL_REDUCE_START, start, group, group.gradients);
  setReduction(entry, start);
  Value predecessor = start.getPredecessor();
  entry.after = predecessor ? handleOf.lookup(predecessor) : FSDP_NO_HANDLE;
  entry.source = entry.destination = base;
  return success();
}

LogicalResult Lowering::lower(AllReduceWaitOp wait) {
  AllReduceStartOp start = wait.getStart();
  addWait(wait, getPlanPhase(start.getPhase()));
  baseOf[wait.getResult()] = baseOf.lookup(wait.getHandle());
  if (isa<RankedTensorType>(wait.getResult().getType()))
    valueOf[wait.getResult()] = valueOf.lookup(start.getSource());
  return success();
}

LogicalResult Lowering::lower(WriteOp write) {
  uint32_t source = valueOf.lookup(write.getValue());
  uint32_t destination = bufferValue.lookup(write.getBufferAttr().getAttr());
  if (source == destination)
    return success(); // the buffer itself, unchanged
  addCopy(FSDP_FORWARD, source, destination, write.getBuffer(), write.getLoc());
  return success();
}

LogicalResult Lowering::lower(UpdateOp update) {
  if (!groups.isGroup(update.getTargetAttr()))
    return update.emitOpError("updates ") << update.getTargetAttr() << ", expected a group";
  const GroupInfo &group = groups.lookup(update.getTargetAttr());
  fsdp_entry &entry = builder.addEntry(FSDP_UPDATE, FSDP_BACKWARD);
  // Accumulated gradients are in the parameters' dtype.
  Type dtype = update.getGradient().getType().getElementType();
  entry.dtype = *getPlanDType(dtype);
  entry.target = group.index;
  entry.source = baseOf.lookup(update.getGradient());
  entry.bytes = group.getGradientBytes(dtype);
  entry.count = group.gradients.shardElements;
  entry.location = builder.addLocation(update.getLoc());
  return success();
}

LogicalResult Lowering::lower(func::ReturnOp ret) {
  auto type = ret.getNumOperands() == 1 ? dyn_cast<RankedTensorType>(ret.getOperand(0).getType())
                                        : RankedTensorType();
  if (!type || type.getNumElements() != 1)
    return ret.emitOpError("must return the loss alone, one number");
  builder.tables.header.loss_value = valueOf.lookup(ret.getOperand(0));
  return success();
}

FailureOr<PlanTables> Lowering::run() {
  if (failed(lowerHeader()) || failed(lowerKernels()))
    return failure();
  for (Operation &op : step.getBody().front()) {
    LogicalResult lowered = success();
    auto lowerIt = [&](auto known)
      requires requires { lower(known); }
    { lowered = lower(known); };
    if (!visitByClass(&op, lowerIt))
      return op.emitOpError("is not part of a step");
    if (failed(lowered))
      return failure();
  }
  // The text may read the microbatches' batches where it likes (S1); in a plan they follow each
  // other.
  llvm::stable_sort(builder.tables.inputs, [](const fsdp_input &a, const fsdp_input &b) {
    return a.microbatch < b.microbatch;
  });
  return std::move(builder.tables);
}

static FailureOr<PlanTables> lowerStep(ModuleOp module, const CommunicatorTable &communicators,
                                       StringRef chip) {
  FailureOr<func::FuncOp> step = getStep(module, ModulePhase::Planned);
  if (failed(step))
    return failure();
  FailureOr<Step> declared = Step::collect(module);
  FailureOr<GroupTable> groups = GroupTable::build(module);
  if (failed(declared) || failed(groups) || failed(StepStorage::build(*step, *groups)))
    return failure();
  return Lowering(std::move(*declared), std::move(*groups), communicators, chip).run();
}

FailureOr<PlanTables> fsdp::lowerToPlan(ModuleOp module, StringRef chip) {
  FailureOr<CommunicatorTable> communicators = CommunicatorTable::build(module);
  if (failed(communicators))
    return failure();
  return lowerStep(module, *communicators, chip);
}

FailureOr<std::vector<PlanTables>> fsdp::lowerProgram(ModuleOp module, StringRef chip) {
  auto steps = getSteps(module);
  FailureOr<CommunicatorTable> communicators = CommunicatorTable::build(steps);
  if (failed(communicators))
    return failure();
  std::vector<PlanTables> tables;
  for (ModuleOp step : steps) {
    FailureOr<PlanTables> lowered = lowerStep(step, *communicators, chip);
    if (failed(lowered))
      return failure();
    tables.push_back(std::move(*lowered));
  }
  return tables;
}
