//===- RanksGroups.cpp - State and updates of groups ----------------------===//

#include "Arguments.h"
#include "Meetings.h"
#include "Operators.h"
#include "RanksInterpreter.h"
#include "Updates.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::interpreter;

at::Tensor fsdp::interpreter::inParam(const at::Tensor &whole, const plan::ParameterPlace &place,
                                      const plan::Piece &piece) {
  const int64_t stride = whole.stride(0); // 0 for an expanded gradient
  return whole.as_strided({place.runs, piece.count / place.runs},
                          {place.runStride * stride, stride},
                          whole.storage_offset() + piece.first * stride);
}

at::Tensor fsdp::interpreter::inShard(const at::Tensor &shard, const plan::ParameterPlace &place,
                                      const plan::Piece &piece) {
  return shard.narrow(0, piece.shardOffset, piece.count)
      .view({place.runs, piece.count / place.runs});
}

at::Tensor fsdp::interpreter::assembleParam(const GroupInfo &group, const plan::GroupLayout &layout,
                                            unsigned param, ArrayRef<at::Tensor> shards) {
  at::Tensor full = at::empty({group.getParamElements(param)}, shards.front().options());
  const plan::ParameterPlace &place = layout.parameters[param];
  for (const plan::Piece &piece : place.pieces)
    inParam(full, place, piece).copy_(inShard(shards[piece.rank], place, piece));
  return full.view(group.getParamType(param).getShape());
}

SmallVector<at::Tensor>
RanksInterpreter::collectShards(const GroupInfo &group, unsigned rank,
                                llvm::function_ref<at::Tensor(unsigned)> getShard) {
  GroupOp op = group.op;
  return llvm::map_to_vector(interpreter::findPeers(step.getMesh(op), op.getAxis(), rank),
                             getShard);
}

static at::Tensor &getPart(KeptShard &kept, const HostPart &part) {
  if (part.category == BufferCategory::OptimizerState)
    return kept.states[part.index - 1];
  return part.isCopy() ? kept.gatherCopy : kept.parameters;
}

static Type getPartType(const GroupInfo &group, const HostPart &part) {
  if (part.category == BufferCategory::OptimizerState)
    return group.states[part.index - 1].elementType;
  return (part.isCopy() ? group.gathered : group.master).elementType;
}

void RanksInterpreter::keepGroups(const NamedTensors &state) {
  for (const GroupInfo &group : groups.getGroups()) {
    GroupOp op = group.op;
    PlacesAttr places = op.getPlacesAttr(); // null before memory planning
    if (places)
      if (std::optional<std::string> wrong = group.explainPlaces())
        throw std::runtime_error("group @" + op.getSymName().str() + ' ' + *wrong);
    for (auto [index, rank] : llvm::enumerate(ranks)) {
      auto place = [&](const GroupForm &form, std::optional<int64_t> offset, bool isOnHost) {
        if (isOnHost)
          return at::zeros({form.shardElements}, convertElementType(form.elementType));
        return rank.memory.placeFlat(form.shardElements, form.elementType, offset);
      };
      const bool isOnHost = op.areParametersOnHost();
      std::optional<int64_t> none;
      KeptShard kept;
      kept.parameters = place(group.master, places ? places.getShard() : none, isOnHost).zero_();
      unsigned part =
          findPosition(interpreter::findPeers(step.getMesh(op), op.getAxis(), index), index);
      for (auto [param, within] : llvm::enumerate(group.layout.parameters)) {
        at::Tensor whole =
            findTensor(state, "parameter", ParamOp(group.params[param]).getSymName()).reshape({-1});
        for (const plan::Piece &piece : within.pieces)
          if (piece.rank == part)
            inShard(kept.parameters, within, piece).copy_(inParam(whole, within, piece));
      }
      for (auto [i, form] : llvm::enumerate(group.states))
        kept.states.push_back(place(form,
                                    places && !op.isStateOnHost() ? places.getStates()[i] : none,
                                    op.isStateOnHost())
                                  .zero_());
      if (group.hasGatherCopy())
        kept.gatherCopy = place(group.gathered, places ? places.getCopy() : none, isOnHost)
                              .copy_(kept.parameters);
      rank.groups.push_back(std::move(kept));
    }
  }
}

/// Records the gradients that the updates of all ranks read.
void RanksInterpreter::noteGradients(const GroupInfo &group, mlir::Value gradient,
                                     UpdateOp update) {
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    SmallVector<at::Tensor> shards =
        collectShards(group, index, [&](unsigned peer) { return get(peer, gradient, update); });
    for (auto [param, op] :
         llvm::enumerate(ArrayRef(group.params).take_front(group.gradients.numParams)))
      rank.result.gradients[ParamOp(op).getSymName().str()] =
          assembleParam(group, group.layout, param, shards);
  }
}

void RanksInterpreter::noteParameters() {
  for (const GroupInfo &group : groups.getGroups())
    for (auto [index, rank] : llvm::enumerate(ranks)) {
      SmallVector<at::Tensor> shards = collectShards(
          group, index, [&](unsigned peer) { return ranks[peer].groups[group.index].parameters; });
      for (auto [param, op] : llvm::enumerate(group.params))
        rank.result.parameters[ParamOp(op).getSymName().str()] =
            assembleParam(group, group.layout, param, shards);
    }
}

void RanksInterpreter::visit(UpdateOp update) {
  if (!groups.isGroup(update.getTargetAttr()) || !update.getGradient())
    throw std::runtime_error("the update of @" + update.getTarget().str() +
                             " is not one of a group with a gradient");
  const GroupInfo &group = groups.lookup(update.getTargetAttr());
  GroupOp op = group.op;
  noteGradients(group, update.getGradient(), update);
  std::vector<HostPart> parts = group.getHostParts();
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    KeptShard &kept = rank.groups[group.index];
    GradientFactors factors;
    if (update.getScale())
      factors.inverseScale = getInverseScale(step.optimizer);
    if (update.getClip())
      factors.clip = get(index, update.getClip(), update).item<float>();
    KeptShard fetched = kept; // with fetched copies in place of tensors on the host
    if (update.getState())
      for (auto [part, place] : llvm::zip_equal(parts, rank.states[update.getState()]))
        getPart(fetched, part) = place;
    else if (op.isUpdatedFromHost() && (op.areParametersOnHost() || !kept.states.empty()))
      throw std::runtime_error("group @" + update.getTarget().str() +
                               " is updated without its state, which is on the host");
    at::Tensor gradients = get(index, update.getGradient(), update);
    unsigned part =
        findPosition(interpreter::findPeers(step.getMesh(op), op.getAxis(), index), index);
    for (unsigned param = 0; param < group.updated.numParams; ++param)
      for (const plan::Piece &piece : group.layout.parameters[param].pieces) {
        if (piece.rank != part)
          continue;
        auto take = [&](const at::Tensor &shard) {
          return shard.narrow(0, piece.shardOffset, piece.count);
        };
        at::Tensor parameters = take(fetched.parameters);
        SmallVector<at::Tensor> ofPiece = llvm::map_to_vector(fetched.states, take);
        updateFlat(optimizers.lookup(ParamOp(group.params[param]).getSymNameAttr()), /*step=*/1,
                   parameters, take(gradients), ofPiece, factors);
      }
    if (fetched.gatherCopy.defined())
      fetched.gatherCopy.copy_(fetched.parameters);
  }
  updates.push_back(update.getTarget().str());
}

//===----------------------------------------------------------------------===//
// Optimizer state on the host
//===----------------------------------------------------------------------===//

void RanksInterpreter::visit(FetchStateStartOp fetch) {
  const GroupInfo &group = groups.lookup(fetch.getGroupAttr());
  std::vector<HostPart> parts = group.getHostParts();
  Flight flight = makeFlight(fetch);
  for (auto [index, rank] : llvm::enumerate(ranks))
    for (auto [i, part] : llvm::enumerate(parts)) {
      std::optional<int64_t> offset;
      if (fetch.getOffsets())
        offset = (*fetch.getOffsets())[i];
      at::Tensor host =
          getPart(rank.groups[group.index], part).narrow(0, 0, group.updated.shardElements);
      at::Tensor place =
          rank.memory.placeFlat(group.updated.shardElements, getPartType(group, part), offset);
      poison(place);
      if (part.isCopy()) { // the update writes it
        flight.outputs[index].push_back({place, place.clone()});
        continue;
      }
      flight.inputs[index].push_back({host, host.clone()});
      flight.outputs[index].push_back({place, host.clone()});
    }
  flights[fetch.getHandle()] = std::move(flight);
}

void RanksInterpreter::visit(FetchStateWaitOp wait) {
  Flight flight = land(wait.getHandle(), wait);
  for (auto [rank, outputs] : llvm::zip_equal(ranks, flight.outputs))
    for (const Flight::Output &output : outputs)
      rank.states[wait.getState()].push_back(output.place);
}

void RanksInterpreter::visit(StoreStateStartOp store) {
  const GroupInfo &group = groups.lookup(store.getState().getType());
  std::vector<HostPart> parts = group.getHostParts();
  Flight flight = makeFlight(store);
  for (auto [index, rank] : llvm::enumerate(ranks))
    for (auto [part, place] : llvm::zip_equal(parts, rank.states[store.getState()])) {
      at::Tensor host =
          getPart(rank.groups[group.index], part).narrow(0, 0, group.updated.shardElements);
      poison(host);
      flight.inputs[index].push_back({place, place.clone()});
      flight.outputs[index].push_back({host, place.clone()});
    }
  flights[store.getHandle()] = std::move(flight);
}

void RanksInterpreter::visit(StoreStateWaitOp wait) { land(wait.getHandle(), wait); }

//===----------------------------------------------------------------------===//
// Gradients and activations on the host
//===----------------------------------------------------------------------===//

void RanksInterpreter::visit(StoreStartOp store) {
  Flight flight = makeFlight(store);
  for (unsigned index = 0; index < ranks.size(); ++index) {
    at::Tensor value = get(index, store.getValue(), store);
    at::Tensor host = at::empty_like(value);
    poison(host);
    flight.inputs[index].push_back({value, value.clone()});
    flight.outputs[index].push_back({host, value.clone()});
  }
  flights[store.getHandle()] = std::move(flight);
}

void RanksInterpreter::visit(StoreWaitOp wait) {
  Flight flight = land(wait.getHandle(), wait);
  for (auto [rank, outputs] : llvm::zip_equal(ranks, flight.outputs))
    rank.values[wait.getStored()] = outputs.front().place;
}

void RanksInterpreter::visit(FetchStartOp fetch) {
  Flight flight = makeFlight(fetch);
  auto tensor = dyn_cast<RankedTensorType>(fetch.getValueType());
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    at::Tensor host = get(index, fetch.getStored(), fetch);
    at::Tensor place =
        tensor ? rank.memory.place(tensor, fetch.getOffset())
               : rank.memory.placeFlat(host.numel(),
                                       cast<ShardType>(fetch.getValueType()).getElementType(),
                                       fetch.getOffset());
    poison(place);
    flight.inputs[index].push_back({host, host.clone()});
    flight.outputs[index].push_back({place, host.clone()});
  }
  flights[fetch.getHandle()] = std::move(flight);
}

void RanksInterpreter::visit(FetchWaitOp wait) {
  Flight flight = land(wait.getHandle(), wait);
  for (auto [rank, outputs] : llvm::zip_equal(ranks, flight.outputs))
    rank.values[wait.getResult()] = outputs.front().place;
}
