//===- LowerToPlan.cpp - From a planned module to the plan's tables -------===//

#include "fsdp/Export/LowerToPlan.h"

#include "Lowering.h"
#include "fsdp/Analysis/StepStorage.h"
#include "llvm/ADT/TypeSwitch.h"
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
    return success(); // step and lr: the runtime knows them
  FailureOr<int64_t> offset = getOffset(input, input.getOffset());
  if (failed(offset) || failed(define(input.getResult(), *offset)))
    return failure();
  builder.tables.inputs.push_back({builder.addString(input.getName()), valueOf[input.getResult()]});
  return success();
}

LogicalResult Lowering::lower(aten::ConstantOp constant) {
  FailureOr<int64_t> offset = getOffset(constant, constant.getOffset());
  if (failed(offset) || failed(define(constant.getResult(), *offset)))
    return failure();
  FailureOr<std::vector<unsigned char>> bytes = getConstantBytes(constant.getValue());
  if (failed(bytes))
    return constant.emitOpError("holds no data");
  fsdp_constant &lowered = builder.tables.constants.emplace_back();
  lowered.value = valueOf[constant.getResult()];
  lowered.first_byte = builder.tables.data.size();
  lowered.bytes = bytes->size();
  builder.tables.data.insert(builder.tables.data.end(), bytes->begin(), bytes->end());
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

template <typename StartT>
fsdp_entry &Lowering::addStart(fsdp_entry_kind kind, StartT start, const GroupInfo &group,
                               const GroupForm &form) {
  fsdp_entry &entry = builder.addEntry(kind, getPlanPhase(start.getPhase()));
  entry.stream = getPlanStream(start.getStream());
  entry.dtype = *getPlanDType(form.elementType);
  entry.target = group.index;
  entry.handle = handleOf[start.getHandle()] = builder.tables.header.num_handles++;
  entry.bytes = form.shardBytes;
  entry.count = group.layout.shardElements;
  entry.coalesced = start.getCoalesced();
  entry.location = builder.addLocation(start.getLoc());
  return entry;
}

LogicalResult Lowering::lower(AllGatherStartOp start) {
  FailureOr<int64_t> offset = getOffset(start, start.getOffset());
  if (failed(offset))
    return failure();
  const GroupInfo &group = groups.lookup(start.getGroupAttr());
  fsdp_entry &entry = addStart(FSDP_ALL_GATHER_START, start, group, group.gathered);
  entry.source = builder.tables.groups[group.index].gather_shard;
  entry.destination = *offset;
  return success();
}

void Lowering::addWait(Operation *wait, Value handle, fsdp_phase phase) {
  fsdp_entry &entry = builder.addEntry(FSDP_WAIT, phase);
  entry.handle = handleOf.lookup(handle);
  entry.location = builder.addLocation(wait->getLoc());
}

LogicalResult Lowering::lower(AllGatherWaitOp wait) {
  auto start = wait.getHandle().getDefiningOp<AllGatherStartOp>();
  const GroupInfo &group = groups.lookup(start.getGroupAttr());
  int64_t gathered = *start.getOffset();
  fsdp_phase phase = getPlanPhase(start.getPhase());
  addWait(wait, wait.getHandle(), phase);
  if (!group.isFlat() && (!wait.getOffsets() || wait.getOffsets()->size() != group.params.size()))
    return wait.emitOpError("needs one offset per parameter in the per-param layout");
  for (auto [i, value] : llvm::enumerate(wait.getResults())) {
    int64_t base = group.isFlat() ? gathered + group.getParamBegin(i, group.gathered)
                                  : (*wait.getOffsets())[i];
    if (failed(define(value, base)))
      return failure();
    if (!group.isFlat())
      forEachRankPart(group, i, cast<RankedTensorType>(value.getType()), base, gathered,
                      [&](uint32_t full, uint32_t inRanks) {
                        ParamOp param = group.params[i];
                        addCopy(phase, inRanks, full, param.getSymName(), wait.getLoc());
                      });
  }
  return success();
}

LogicalResult Lowering::lower(ReleaseOp release) {
  auto start = release.getHandle().getDefiningOp<AllGatherStartOp>();
  fsdp_entry &entry = builder.addEntry(FSDP_RELEASE, getPlanPhase(release.getPhase()));
  entry.target = groups.lookup(start.getGroupAttr()).index;
  entry.location = builder.addLocation(release.getLoc());
  return success();
}

LogicalResult Lowering::prepareInput(ReduceScatterStartOp start) {
  if (!start.getOffsets() || start.getOffsets()->size() != 2)
    return start.emitOpError("needs the offsets of its input and its output");
  const GroupInfo &group = groups.lookup(start.getGroupAttr());
  int64_t input = (*start.getOffsets())[0];
  for (auto [i, gradient] : llvm::enumerate(start.getGrads()))
    placeGradient(group, i, gradient, input, start.getLoc());
  zeroPadding(group, input);
  return success();
}

LogicalResult Lowering::lower(ReduceScatterStartOp start) {
  // The starts of a bucket follow one another: all inputs are made before the first.
  if (!start.getCoalesced()) {
    ReduceScatterStartOp member = start;
    do {
      if (failed(prepareInput(member)))
        return failure();
      member = dyn_cast<ReduceScatterStartOp>(member->getNextNode());
    } while (member && member.getCoalesced());
  }
  const GroupInfo &group = groups.lookup(start.getGroupAttr());
  fsdp_entry &entry = addStart(FSDP_REDUCE_SCATTER_START, start, group, group.gradients);
  entry.source = (*start.getOffsets())[0];
  entry.destination = (*start.getOffsets())[1];
  return success();
}

LogicalResult Lowering::lower(ReduceScatterWaitOp wait) {
  auto start = wait.getHandle().getDefiningOp<ReduceScatterStartOp>();
  addWait(wait, wait.getHandle(), getPlanPhase(start.getPhase()));
  return success();
}

LogicalResult Lowering::lower(AllReduceStartOp start) {
  auto reduction = start.getReduction().getDefiningOp<ReduceScatterStartOp>();
  const GroupInfo &group = groups.lookup(start.getGroupAttr());
  fsdp_entry &entry = addStart(FSDP_ALL_REDUCE_START, start, group, group.gradients);
  entry.after = handleOf.lookup(start.getReduction());
  entry.source = entry.destination = (*reduction.getOffsets())[1];
  return success();
}

LogicalResult Lowering::lower(AllReduceWaitOp wait) {
  auto start = wait.getHandle().getDefiningOp<AllReduceStartOp>();
  addWait(wait, wait.getHandle(), getPlanPhase(start.getPhase()));
  return success();
}

LogicalResult Lowering::lower(GradOp grad) {
  auto [group, param] = groups.lookupParam(grad.getParamAttr());
  if (!group || groups.getRanks() > 1)
    return grad.emitOpError("of ")
           << grad.getParamAttr() << " is never reduced over the " << groups.getRanks() << " ranks";
  // The group's gradients lie where its update reads them.
  GroupOp op = group->op;
  UpdateOp update = updateOf.lookup(op.getSymNameAttr());
  if (!update)
    return grad.emitOpError("of ")
           << grad.getParamAttr() << " has no update of its group @" << op.getSymName();
  FailureOr<int64_t> base = getOffset(update, update.getOffset());
  if (failed(base))
    return failure();
  placeGradient(*group, param, grad.getValue(), *base, grad.getLoc());
  return success();
}

LogicalResult Lowering::lower(WriteOp write) {
  uint32_t source = valueOf.lookup(write.getValue());
  uint32_t destination = bufferValue.lookup(write.getBufferAttr().getAttr());
  if (source == destination)
    return success(); // what was read, unchanged
  addCopy(FSDP_FORWARD, source, destination, write.getBuffer(), write.getLoc());
  return success();
}

LogicalResult Lowering::lower(UpdateOp update) {
  FailureOr<int64_t> offset = getOffset(update, update.getOffset());
  if (failed(offset))
    return failure();
  if (!groups.isGroup(update.getTargetAttr()))
    return update.emitOpError("updates ") << update.getTargetAttr() << ", expected a group";
  const GroupInfo &group = groups.lookup(update.getTargetAttr());
  if (groups.getRanks() == 1 && !update.getClip())
    zeroPadding(group, *offset);
  fsdp_entry &entry = builder.addEntry(FSDP_UPDATE, FSDP_BACKWARD);
  entry.dtype = *getPlanDType(group.gradients.elementType);
  entry.target = group.index;
  entry.source = *offset;
  entry.bytes = group.gradients.shardBytes;
  entry.count = group.layout.shardElements;
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
  if (failed(lowerHeader()))
    return failure();
  for (auto update : step.getOps<UpdateOp>())
    updateOf[update.getTargetAttr().getAttr()] = update;
  for (Operation &op : step.getBody().front()) {
    LogicalResult lowered =
        llvm::TypeSwitch<Operation *, LogicalResult>(&op)
            .Case<InputOp, aten::ConstantOp, ReadOp, aten::CallOp, AllGatherStartOp,
                  AllGatherWaitOp, ReleaseOp, ReduceScatterStartOp, ReduceScatterWaitOp,
                  AllReduceStartOp, AllReduceWaitOp, GradOp, WriteOp, UpdateOp, FetchStateStartOp,
                  FetchStateWaitOp, StoreStateStartOp, StoreStateWaitOp, SquareSumOp,
                  SquareSumAllReduceStartOp, SquareSumAllReduceWaitOp, ClipFactorOp,
                  func::ReturnOp>([&](auto known) { return lower(known); })
            .Default([](Operation *other) { return other->emitOpError("is not part of a step"); });
    if (failed(lowered))
      return failure();
  }
  return std::move(builder.tables);
}

FailureOr<PlanTables> fsdp::lowerToPlan(ModuleOp module) {
  FailureOr<func::FuncOp> step = getStep(module, ModulePhase::Planned);
  if (failed(step))
    return failure();
  FailureOr<GroupTable> groups = GroupTable::build(module);
  if (failed(groups) || failed(StepStorage::build(*step, *groups)))
    return failure();
  return Lowering(module, *step, std::move(*groups)).run();
}
