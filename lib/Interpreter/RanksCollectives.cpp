//===- RanksCollectives.cpp - Collectives of a mesh's ranks ---------------===//

#include "Arguments.h"
#include "Meetings.h"
#include "RanksInterpreter.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>

#include <algorithm>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::interpreter;

std::string fsdp::interpreter::describeStart(Operation *start) {
  auto collective = dyn_cast<CollectiveOpInterface>(start);
  if (!collective)
    return "the " + cast<StepOpInterface>(start).getTitle() + " by '" +
           start->getName().getStringRef().str() + "'";
  FlatSymbolRefAttr group = collective.getCollectiveGroup();
  return "the " + collective.getCollectiveKind().str() + " of " +
         (group ? "group @" + group.getValue().str() : std::string("a tensor"));
}

SmallVector<unsigned> RanksInterpreter::findPeers(CollectiveOpInterface start,
                                                  unsigned rank) const {
  SmallVector<unsigned> peers = interpreter::findPeers(
      step.getMesh(start), llvm::to_vector(start.getAxes().getAsValueRange<StringAttr>()), rank);
  if (int64_t neighbours = start.getNeighbours()) {
    int64_t own = llvm::find(peers, rank) - peers.begin();
    peers = llvm::to_vector(ArrayRef(peers).slice(own / neighbours * neighbours, neighbours));
  }
  return peers;
}

//===----------------------------------------------------------------------===//
// Flights
//===----------------------------------------------------------------------===//

Flight RanksInterpreter::makeFlight(Operation *start) const {
  Flight flight;
  flight.start = start;
  flight.inputs.resize(ranks.size());
  flight.outputs.resize(ranks.size());
  return flight;
}

Flight RanksInterpreter::land(mlir::Value handle, Operation *wait) {
  auto found = flights.find(handle);
  if (found == flights.end())
    throw std::runtime_error("'" + wait->getName().getStringRef().str() +
                             "' waits for a transfer that has not started or has ended");
  Flight flight = std::move(found->second);
  flights.erase(found);
  for (const auto &inputs : flight.inputs)
    for (const Flight::Input &input : inputs)
      if (!haveEqualBits(input.live, input.atStart))
        throw std::runtime_error("an input of " + describeStart(flight.start) +
                                 " is changed before its wait");
  for (auto &outputs : flight.outputs)
    for (Flight::Output &output : outputs) {
      if (!isPoisoned(output.place))
        throw std::runtime_error("the result of " + describeStart(flight.start) +
                                 " is written before its wait");
      output.place.copy_(output.result);
    }
  return flight;
}

/// Checks that as many ranks meet as the group is sharded over.
static void checkPeers(const plan::GroupLayout &layout, size_t numPeers, Operation *start) {
  if (numPeers != layout.ranks)
    throw std::runtime_error(describeStart(start) + " meets " + std::to_string(numPeers) +
                             " ranks, but the group is sharded over " +
                             std::to_string(layout.ranks));
}

//===----------------------------------------------------------------------===//
// Of the model
//===----------------------------------------------------------------------===//

void RanksInterpreter::visitModelCollective(aten::CallOp call, const ModelCollective &collective) {
  SmallVector<at::Tensor> inputs, results;
  std::vector<SmallVector<at::Tensor>> places;
  for (unsigned rank = 0; rank < ranks.size(); ++rank) {
    inputs.push_back(get(rank, call.getOperand(0), call));
    places.push_back(placeResults(rank, call));
  }
  for (unsigned rank = 0; rank < ranks.size(); ++rank) {
    if (collective.kind == ModelCollectiveKind::AllGather) {
      results.push_back(at::stack(at::TensorList(inputs.data(), inputs.size())));
      continue;
    }
    SmallVector<at::Tensor> parts = inputs;
    if (collective.kind == ModelCollectiveKind::ReduceScatter)
      for (at::Tensor &part : parts)
        part = part.select(0, rank);
    results.push_back(reduceInOrder(parts, {.op = collective.reduceOp}));
  }
  for (unsigned rank = 0; rank < ranks.size(); ++rank)
    storeResults(rank, call, places[rank], results[rank]);
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

void RanksInterpreter::visit(AllGatherStartOp start) {
  const GroupInfo &group = groups.lookup(start.getShardType());
  Flight flight = makeFlight(start);
  for (unsigned rank = 0; rank < ranks.size(); ++rank) {
    at::Tensor shard = get(rank, start.getShard(), start);
    flight.inputs[rank].push_back({shard, shard.clone()});
  }
  for (unsigned rank = 0; rank < ranks.size(); ++rank) {
    SmallVector<unsigned> peers = findPeers(start, rank);
    checkPeers(group.getLayout(start.getShardType()), peers.size(), start);
    SmallVector<at::Tensor> parts =
        llvm::map_to_vector(peers, [&](unsigned peer) { return flight.inputs[peer][0].atStart; });
    at::Tensor place =
        ranks[rank].memory.placeFlat(group.gathered.wholeBytes / group.gathered.elementBytes,
                                     group.gathered.elementType, start.getOffset());
    poison(place);
    flight.outputs[rank].push_back({place, at::cat(at::TensorList(parts.data(), parts.size()))});
  }
  flights[start.getHandle()] = std::move(flight);
}

void RanksInterpreter::visit(AllGatherWaitOp wait) {
  AllGatherStartOp start = wait.getStart();
  const GroupInfo &group = groups.lookup(start.getShardType());
  const plan::GroupLayout &layout = group.getLayout(start.getShardType());
  Flight flight = land(wait.getHandle(), wait);
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    at::Tensor gathered = flight.outputs[index].front().place;
    rank.values[wait.getHandle()] = gathered;
    SmallVector<at::Tensor> shards;
    const int64_t partElements = gathered.numel() / layout.ranks;
    for (unsigned part = 0; part < layout.ranks; ++part) {
      at::Tensor shard = gathered.narrow(0, part * partElements, partElements);
      shards.push_back(group.encodedBegins.empty() ? shard : decodeShard(group, shard));
    }
    for (auto [param, value] : llvm::enumerate(wait.getResults())) {
      auto type = cast<RankedTensorType>(value.getType());
      at::Tensor &full = rank.values[value];
      if (group.isFlat()) {
        auto *first = static_cast<char *>(gathered.data_ptr());
        full = at::from_blob(first + group.getParamBegin(param, group.gathered), type.getShape(),
                             convertElementType(type.getElementType()));
      } else {
        std::optional<int64_t> offset;
        if (wait.getOffsets())
          offset = (*wait.getOffsets())[param];
        full = rank.memory.place(type, offset);
        full.copy_(assembleParam(group, layout, param, shards));
      }
      fullParams[value] = {start, static_cast<unsigned>(param)};
    }
    if (!group.isFlat())
      poison(gathered);
  }
}

void RanksInterpreter::visit(ChunkOp chunk) {
  ShardType type = chunk.getResult().getType();
  const GroupInfo &group = groups.lookup(type);
  const plan::GroupLayout &layout = group.getLayout(type);
  GroupOp op = group.op;
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    SmallVector<unsigned> peers = interpreter::findPeers(step.getMesh(op), op.getAxis(), index);
    unsigned own = (llvm::find(peers, index) - peers.begin()) % layout.ranks;
    at::Tensor place =
        rank.memory.placeFlat(layout.shardElements, type.getElementType(), chunk.getOffset());
    poison(place);
    for (auto [param, value] : llvm::enumerate(chunk.getParams())) {
      at::Tensor full = get(index, value, chunk).reshape({-1});
      const plan::ParameterPlace &within = layout.parameters[param];
      for (const plan::Piece &piece : within.pieces)
        if (piece.rank == own)
          inShard(place, within, piece).copy_(inParam(full, within, piece));
    }
    rank.values[chunk.getResult()] = place;
  }
}

void RanksInterpreter::visit(ReshardOp reshard) {
  AllGatherStartOp start = reshard.getStart();
  AllGatherWaitOp wait = start.getWait();
  if (!wait || !ranks.front().values.contains(reshard.getHandle()))
    throw std::runtime_error("group @" + start.getGroup().str() +
                             " is resharded before its gather is waited for");
  if (!reshardOf.try_emplace(start, reshard).second)
    throw std::runtime_error("group @" + start.getGroup().str() + " is resharded twice");
  for (Rank &rank : ranks) {
    if (groups.lookup(start.getGroupAttr()).isFlat()) // otherwise it ended at the wait
      poison(rank.values.lookup(reshard.getHandle()));
    for (mlir::Value value : wait.getResults())
      poison(rank.values.lookup(value));
  }
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// Zeroes elements outside of all pieces of parameters.
static void zeroPadding(const plan::GroupLayout &layout, at::Tensor &packed) {
  std::vector<std::pair<int64_t, int64_t>> covered; // begin, end
  for (const plan::ParameterPlace &place : layout.parameters)
    for (const plan::Piece &piece : place.pieces) {
      int64_t begin = piece.rank * layout.shardElements + piece.shardOffset;
      covered.push_back({begin, begin + piece.count});
    }
  covered.push_back({layout.gatheredElements(), layout.gatheredElements()});
  llvm::sort(covered);
  int64_t filled = 0;
  for (auto [begin, end] : covered) {
    packed.narrow(0, filled, begin - filled).zero_();
    filled = end;
  }
}

at::Tensor RanksInterpreter::packGradients(unsigned rank, const GroupInfo &group,
                                           OperandRange gradients, std::optional<int64_t> offset,
                                           Operation *op) {
  const plan::GroupLayout &layout = group.trained;
  // Gradients that were computed in the buffer are kept.
  at::Tensor packed =
      ranks[rank].memory.placeFlat(layout.gatheredElements(), group.gradients.elementType, offset);
  for (auto [param, value] : llvm::enumerate(gradients)) {
    at::Tensor gradient = get(rank, value, op);
    if (gradient.scalar_type() != packed.scalar_type())
      throw std::runtime_error("the gradient of @" +
                               ParamOp(group.params[param]).getSymName().str() + " is of " +
                               toString(gradient.scalar_type()) + ", but is reduced in " +
                               toString(packed.scalar_type()));
    at::Tensor flat = gradient.reshape({-1});
    bool isThere = gradient.is_contiguous() && (group.isFlat() || layout.ranks == 1) &&
                   gradient.const_data_ptr() == static_cast<const char *>(packed.const_data_ptr()) +
                                                    group.getParamBegin(param, group.gradients);
    if (isThere)
      continue;
    const plan::ParameterPlace &within = layout.parameters[param];
    for (const plan::Piece &piece : within.pieces)
      inShard(packed.narrow(0, piece.rank * layout.shardElements, layout.shardElements), within,
              piece)
          .copy_(inParam(flat, within, piece));
  }
  zeroPadding(layout, packed);
  return packed;
}

void RanksInterpreter::visit(ReduceScatterStartOp start) {
  const GroupInfo &group = groups.lookup(start.getGroupAttr());
  std::optional<int64_t> inputOffset, outputOffset;
  if (std::optional<ArrayRef<int64_t>> offsets = start.getOffsets()) {
    inputOffset = offsets->front();
    outputOffset = offsets->back();
  }
  Flight flight = makeFlight(start);
  std::vector<Flight::Output> results;
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    at::Tensor packed = packGradients(index, group, start.getGrads(), inputOffset, start);
    at::Tensor place = rank.memory.placeFlat(group.gradients.shardElements,
                                             group.gradients.elementType, outputOffset);
    poison(place);
    flight.inputs[index].push_back({packed, packed.clone()});
    results.push_back({place, {}});
  }
  for (unsigned rank = 0; rank < ranks.size(); ++rank) {
    SmallVector<unsigned> peers = findPeers(start, rank);
    checkPeers(group.layout, peers.size(), start);
    int64_t begin = findPosition(peers, rank) * group.gradients.shardElements;
    SmallVector<at::Tensor> parts = llvm::map_to_vector(peers, [&](unsigned peer) {
      return flight.inputs[peer][0].atStart.narrow(0, begin, group.gradients.shardElements);
    });
    results[rank].result = reduceInOrder(parts, getReduction(start));
  }
  if (start.getAcross()) // which reduces the same bytes
    passedOn[start.getHandle()] = std::move(results);
  else
    for (auto [outputs, result] : llvm::zip_equal(flight.outputs, results))
      outputs.push_back(result);
  flights[start.getHandle()] = std::move(flight);
}

void RanksInterpreter::visit(ReduceScatterWaitOp wait) {
  Flight flight = land(wait.getHandle(), wait);
  for (auto [rank, outputs] : llvm::zip_equal(ranks, flight.outputs))
    if (!outputs.empty())
      rank.values[wait.getResult()] = outputs.front().place;
}

void RanksInterpreter::visit(AllReduceStartOp start) {
  Flight flight = makeFlight(start);
  mlir::Value source = start.getSource();
  if (isa<HandleType>(source.getType())) {
    auto before = passedOn.find(source);
    if (before == passedOn.end())
      throw std::runtime_error(describeStart(start) +
                               " continues a reduction that passed nothing on");
    for (auto [outputs, output] : llvm::zip_equal(flight.outputs, before->second))
      outputs.push_back(output);
    passedOn.erase(before);
  } else {
    for (unsigned rank = 0; rank < ranks.size(); ++rank) {
      at::Tensor tensor = get(rank, source, start);
      flight.outputs[rank].push_back({tensor, tensor.clone()});
      poison(tensor);
    }
  }
  std::vector<at::Tensor> reduced;
  for (unsigned rank = 0; rank < ranks.size(); ++rank)
    reduced.push_back(reduceInOrder(
        llvm::map_to_vector(findPeers(start, rank),
                            [&](unsigned peer) { return flight.outputs[peer][0].result; }),
        getReduction(start)));
  for (auto [outputs, result] : llvm::zip_equal(flight.outputs, reduced))
    outputs.front().result = result;
  flights[start.getHandle()] = std::move(flight);
}

void RanksInterpreter::visit(AllReduceWaitOp wait) {
  Flight flight = land(wait.getHandle(), wait);
  for (auto [rank, outputs] : llvm::zip_equal(ranks, flight.outputs))
    rank.values[wait.getResult()] = outputs.front().place;
}
