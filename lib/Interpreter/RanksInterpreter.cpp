//===- RanksInterpreter.cpp - One step on all ranks of a mesh -------------===//

#include "RanksInterpreter.h"

#include "Operators.h"
#include "Updates.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::interpreter;

std::string fsdp::interpreter::describeUser(Operation *op) {
  if (auto call = dyn_cast<aten::CallOp>(op))
    return "'" + call.getCallee().str() + "' in module '" + call.getModule().str() + "'";
  if (auto update = dyn_cast<UpdateOp>(op))
    return "the update of group @" + update.getTarget().str();
  return "'" + op->getName().getStringRef().str() + "'";
}

RanksInterpreter::RanksInterpreter(Step &step, const GroupTable &groups,
                                   const OptimizerTable &optimizers, const NamedTensors &state,
                                   const std::vector<NamedTensors> &inputs,
                                   const RankDrawSeed &seed)
    : step(step), groups(groups), optimizers(optimizers), seed(seed),
      isPlanned(getPhase(step.module) == ModulePhase::Planned) {
  size_t numRanks = step.getWorldSize();
  if (inputs.size() != numRanks)
    throw std::runtime_error("the mesh has " + std::to_string(numRanks) +
                             " ranks, but inputs are of " + std::to_string(inputs.size()));
  std::optional<int64_t> arenaBytes;
  if (isPlanned) {
    auto bytes = step.module->getAttrOfType<IntegerAttr>(FsdpDialect::getArenaAttrName());
    if (!bytes)
      throw std::runtime_error("a planned module has the attribute '" +
                               FsdpDialect::getArenaAttrName().str() + "'");
    arenaBytes = bytes.getInt();
  }
  for (size_t rank = 0; rank < numRanks; ++rank)
    ranks.emplace_back(arenaBytes);
  keepGroups(state);
  keepBuffers(state);
  placeConstantsAndInputs(inputs);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

at::Tensor RanksInterpreter::get(unsigned rank, mlir::Value value, Operation *user) {
  at::Tensor tensor = ranks[rank].values.lookup(value);
  if (!tensor.defined())
    throw std::runtime_error(describeUser(user) + " reads a value that is not there yet");
  return tensor;
}

void RanksInterpreter::checkUses(Operation &op) {
  auto call = dyn_cast<aten::CallOp>(op);
  for (OpOperand &operand : op.getOpOperands()) {
    auto found = fullParams.find(operand.get());
    if (found == fullParams.end())
      continue;
    auto [gather, position] = found->second;
    if (reshardOf.contains(gather)) {
      ParamOp param = groups.lookup(gather.getGroupAttr()).params[position];
      throw std::runtime_error("parameter @" + param.getSymName().str() + " of group @" +
                               gather.getGroup().str() + " is used after its reshard by " +
                               describeUser(&op));
    }
    if (call && call.isView() && operand.getOperandNumber() == 0)
      for (mlir::Value result : call.getResults())
        fullParams[result] = {gather, position};
  }
}

void RanksInterpreter::keepBuffers(const NamedTensors &state) {
  for (auto buffer : step.module.getOps<BufferOp>()) {
    auto type = cast<RankedTensorType>(buffer.getType());
    for (Rank &rank : ranks) {
      at::Tensor place = rank.memory.place(type, buffer.getOffset());
      place.copy_(findTensor(state, "buffer", buffer.getSymName()));
      rank.buffers[buffer.getSymName().str()] = place;
    }
  }
}

/// Constants and inputs are in the arena throughout, for the next step as well.
void RanksInterpreter::placeConstantsAndInputs(const std::vector<NamedTensors> &inputs) {
  auto place = [&](auto op, mlir::Value value, unsigned rank, const at::Tensor &tensor) {
    auto type = cast<RankedTensorType>(value.getType());
    at::Tensor placed = ranks[rank].memory.place(type, op.getOffset());
    checkTensor(type, tensor.contiguous(), op->getName().getStringRef());
    placed.copy_(tensor);
    ranks[rank].values[value] = placed;
    fixed[value].push_back(placed.clone());
  };
  for (unsigned rank = 0; rank < ranks.size(); ++rank) {
    for (auto constant : step.getBody().getOps<aten::ConstantOp>())
      place(constant, constant.getResult(), rank, makeConstant(constant));
    for (auto input : step.getBody().getOps<InputOp>())
      if (isa<RankedTensorType>(input.getType()))
        place(input, input.getResult(), rank,
              findTensor(inputs[rank], "input", getInputName(input)));
    for (auto scale : step.getBody().getOps<LossScaleOp>())
      place(scale, scale.getResult(), rank, makeLossScale(step.optimizer));
  }
}

void RanksInterpreter::checkConstantsAndInputs() {
  for (auto &[value, tensors] : fixed)
    for (auto [rank, tensor] : llvm::zip_equal(ranks, tensors))
      if (!haveEqualBits(rank.values.lookup(value), tensor))
        throw std::runtime_error("the step overwrites the result of " +
                                 describeUser(value.getDefiningOp()));
}

//===----------------------------------------------------------------------===//
// Operations of a single rank
//===----------------------------------------------------------------------===//

void RanksInterpreter::visit(ReadOp read) {
  auto type = cast<RankedTensorType>(read.getResult().getType());
  auto [group, param] = groups.lookupParam(read.getSourceAttr());
  for (Rank &rank : ranks) {
    at::Tensor tensor;
    if (!group) {
      tensor = rank.buffers.at(read.getSource().str());
    } else if (group->getShards() > 1) {
      throw std::runtime_error("parameter @" + read.getSource().str() + " is read, but is sharded");
    } else {
      at::Tensor &shard = rank.groups[group->index].parameters;
      auto *first = static_cast<char *>(shard.data_ptr());
      tensor = at::from_blob(first + group->getParamBegin(param, group->master), type.getShape(),
                             shard.scalar_type());
    }
    // Before memory planning a read yields a copy.
    rank.values[read.getResult()] = isPlanned ? tensor : tensor.clone();
    checkTensor(type, rank.values[read.getResult()], read->getName().getStringRef());
  }
}

SmallVector<at::Tensor> RanksInterpreter::placeResults(unsigned rank, aten::CallOp call) {
  SmallVector<at::Tensor> places;
  if (!isPlanned || call.isView())
    return places;
  if (!call.getOffsets())
    throw std::runtime_error(describeUser(call) + " has no arena offsets");
  // A result that overlaps an operand is detected when the operand is read.
  for (auto [value, offset] : llvm::zip_equal(call.getResults(), *call.getOffsets())) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    places.push_back(type ? ranks[rank].memory.place(type, offset) : at::Tensor());
    if (type)
      poison(places.back());
  }
  return places;
}

void RanksInterpreter::storeResults(unsigned rank, aten::CallOp call, ArrayRef<at::Tensor> places,
                                    MutableArrayRef<at::Tensor> results) {
  for (auto [i, value] : llvm::enumerate(call.getResults())) {
    if (!results[i].defined())
      continue;
    if (!places.empty())
      results[i] = places[i].copy_(results[i]);
    ranks[rank].values[value] = results[i];
  }
}

void RanksInterpreter::visit(aten::CallOp call) {
  if (std::optional<ModelCollective> collective = getModelCollective(call))
    return visitModelCollective(call, *collective);
  for (unsigned index = 0; index < ranks.size(); ++index) {
    SmallVector<at::Tensor> operands;
    for (mlir::Value operand : call.getOperands())
      operands.push_back(get(index, operand, call));
    if (call.isRandom()) {
      if (!seed || !call.getRng())
        throw std::runtime_error(describeUser(call) + " draws random numbers, but has no seed");
      seedGenerator(seed(index, *call.getRng()));
    }
    SmallVector<at::Tensor> places = placeResults(index, call);
    SmallVector<at::Tensor> results =
        isOwnPart(call) ? SmallVector<at::Tensor>{operands[0].select(0, index).clone()}
                        : callOperator(call, operands);
    storeResults(index, call, places, results);
  }
}

/// Runs the calls of the kernel's body.
void RanksInterpreter::visit(LaunchOp launch) {
  KernelOp kernel = launch.getDeclaration();
  mlir::Block &body = kernel.getBody().front();
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    llvm::DenseMap<mlir::Value, at::Tensor> values;
    for (auto [argument, operand] : llvm::zip_equal(body.getArguments(), launch.getOperands()))
      values[argument] = get(index, operand, launch);
    for (auto call : body.getOps<aten::CallOp>()) {
      SmallVector<at::Tensor> operands;
      for (mlir::Value operand : call.getOperands())
        operands.push_back(values.lookup(operand));
      for (auto [value, tensor] : llvm::zip_equal(call.getResults(), callOperator(call, operands)))
        values[value] = tensor;
    }
    if (isPlanned && !launch.getOffsets())
      throw std::runtime_error(describeUser(launch) + " has no arena offsets");
    for (auto [i, value] : llvm::enumerate(launch.getResults())) {
      at::Tensor result = values.lookup(kernel.getYielded()[i]);
      if (isPlanned) {
        auto type = cast<RankedTensorType>(value.getType());
        at::Tensor place = rank.memory.place(type, (*launch.getOffsets())[i]);
        poison(place);
        result = place.copy_(result);
      }
      rank.values[value] = result;
    }
  }
}

void RanksInterpreter::visit(WriteOp write) {
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    at::Tensor value = get(index, write.getValue(), write);
    at::Tensor &written = rank.result.buffers[write.getBuffer().str()];
    // Before memory planning values that were read are kept.
    written = isPlanned ? rank.buffers.at(write.getBuffer().str()).copy_(value) : value;
  }
}

void RanksInterpreter::visit(ShardOp op) {
  const GroupInfo &group = groups.lookup(op.getResult().getType());
  bool isCopy = op.getResult().getType().getElementType() != group.master.elementType;
  for (Rank &rank : ranks) {
    const KeptShard &kept = rank.groups[group.index];
    at::Tensor shard = isCopy ? kept.gatherCopy : kept.parameters;
    if (!shard.defined())
      throw std::runtime_error("group @" + op.getGroup().str() + " keeps no shard of that dtype");
    rank.values[op.getResult()] = isPlanned ? shard : shard.clone();
  }
}

void RanksInterpreter::visit(PackOp pack) {
  const GroupInfo &group = groups.lookup(pack.getGroupAttr());
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    at::Tensor packed = packGradients(index, group, pack.getGrads(), pack.getOffset(), pack);
    rank.values[pack.getResult()] =
        pack.getDivisor() == 1 ? packed : packed.div_(pack.getDivisor());
  }
}

void RanksInterpreter::visit(CastOp cast) {
  const GroupInfo &group = groups.lookup(cast.getResult().getType());
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    at::Tensor place = rank.memory.placeFlat(
        group.updated.shardElements, cast.getResult().getType().getElementType(), cast.getOffset());
    rank.values[cast.getResult()] = place.copy_(get(index, cast.getSource(), cast));
  }
}

void RanksInterpreter::visit(AccumulateOp sum) {
  for (auto [index, rank] : llvm::enumerate(ranks))
    rank.values[sum.getResult()] =
        get(index, sum.getSum(), sum).add_(get(index, sum.getGradient(), sum));
}

at::Tensor RanksInterpreter::getNormPart(unsigned rank, NormType type, mlir::Value gradient,
                                         Operation *op) {
  // Of several ranks with the same shard only the first counts it.
  const GroupInfo &group = groups.lookup(cast<ShardType>(gradient.getType()));
  if (rank % step.getNormAxes().ranks >= group.getShards())
    return at::zeros({}, at::kDouble);
  return computeNormPart(type, get(rank, gradient, op));
}

void RanksInterpreter::visit(ShardNormOp norm) {
  for (auto [index, rank] : llvm::enumerate(ranks))
    rank.values[norm.getResult()] =
        getNormPart(index, norm.getNormType(), norm.getGradient(), norm);
}

void RanksInterpreter::visit(PartialNormOp norm) {
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    at::Tensor part = at::zeros({}, at::kDouble);
    for (mlir::Value gradient : norm.getGradients())
      part = joinNormParts(norm.getNormType(), part,
                           isa<ShardType>(gradient.getType())
                               ? getNormPart(index, norm.getNormType(), gradient, norm)
                               : get(index, gradient, norm));
    at::Tensor place =
        rank.memory.place(cast<RankedTensorType>(norm.getResult().getType()), norm.getOffset());
    rank.values[norm.getResult()] = place.copy_(part);
  }
}

void RanksInterpreter::visit(ClipFactorOp op) {
  if (!step.optimizer.needsNorm())
    throw std::runtime_error("the optimizer does not clip, but there is a clip factor");
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    float factor = computeClipFactor(step.optimizer, get(index, op.getTotal(), op).item<double>());
    rank.values[op.getFactor()] = at::full({}, factor, at::kFloat);
    rank.result.clipFactor = factor;
  }
}

void RanksInterpreter::visit(func::ReturnOp ret) {
  for (auto [index, rank] : llvm::enumerate(ranks))
    rank.result.loss = get(index, ret.getOperand(0), ret).clone();
}

RanksStep RanksInterpreter::run() {
  for (Operation &op : step.getBody()) {
    checkUses(op);
    auto visitIt = [&](auto known)
      requires requires { visit(known); }
    { visit(known); };
    if (!visitByClass(&op, visitIt))
      throw std::runtime_error("operation '" + op.getName().getStringRef().str() +
                               "' is not part of a sharded step");
  }
  if (!flights.empty())
    throw std::runtime_error(describeStart(flights.begin()->second.start) + " is never waited for");
  checkConstantsAndInputs();
  noteParameters();
  RanksStep result{{}, std::move(updates)};
  for (Rank &rank : ranks) {
    for (auto &[name, value] : rank.result.buffers)
      value = value.clone(); // the arena is reused
    result.ranks.push_back(std::move(rank.result));
  }
  return result;
}

llvm::Expected<RanksStep> fsdp::interpreter::interpretRanks(ModuleOp module,
                                                            const NamedTensors &state,
                                                            const std::vector<NamedTensors> &inputs,
                                                            const RankDrawSeed &seed) {
  if (getPhase(module) == ModulePhase::Captured)
    return llvm::createStringError("the module is captured, expected a sharded, scheduled or "
                                   "planned one");
  FailureOr<Step> step = Step::collect(module);
  FailureOr<GroupTable> groups = GroupTable::build(module);
  FailureOr<OptimizerTable> optimizers = OptimizerTable::build(module);
  if (failed(step) || failed(groups) || step->meshes.empty() || failed(optimizers))
    return llvm::createStringError("the module is no step on a mesh");
  try {
    at::AutoDispatchBelowADInplaceOrView belowAutograd;
    return RanksInterpreter(*step, *groups, *optimizers, state, inputs, seed).run();
  } catch (const std::exception &exception) {
    return llvm::createStringError(exception.what());
  }
}
