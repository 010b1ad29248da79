//===- Float8.cpp - Casts of shards to 8-bit floats -----------------------===//
//
// Written from the definition of fsdp.float8_cast, on whole parameters and pieces of them, and
// independent of the runtime's operators.
//
//===----------------------------------------------------------------------===//

#include "Arguments.h"
#include "Meetings.h"
#include "RanksInterpreter.h"
#include "fsdp/Analysis/Float8Gathers.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::interpreter;

/// The pieces of a parameter that a rank's shard has.
template <typename Visit>
static void forEachPiece(const GroupInfo &group, unsigned param, unsigned part, Visit &&visit) {
  for (const plan::Piece &piece : group.layout.parameters[param].pieces)
    if (piece.rank == part && piece.count > 0)
      visit(piece);
}

void RanksInterpreter::visit(PartialAmaxOp amax) {
  auto type = cast<RankedTensorType>(amax.getResult().getType());
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    at::Tensor place =
        rank.memory.placeFlat(type.getNumElements(), type.getElementType(), amax.getOffset());
    auto *largest = place.mutable_data_ptr<float>();
    for (mlir::Value value : amax.getShards()) {
      const GroupInfo &group = groups.lookup(cast<ShardType>(value.getType()));
      GroupOp op = group.op;
      const unsigned part =
          findPosition(interpreter::findPeers(step.getMesh(op), op.getAxis(), index), index);
      at::Tensor shard = get(index, value, amax);
      for (unsigned param = 0; param < group.params.size(); ++param, ++largest) {
        *largest = 0;
        forEachPiece(group, param, part, [&](const plan::Piece &piece) {
          const float *elements = shard.const_data_ptr<float>() + piece.shardOffset;
          for (int64_t i = 0; i < piece.count; ++i)
            if (const float size = std::fabs(elements[i]); !(size <= *largest))
              *largest = std::isnan(*largest) ? *largest : size;
        });
      }
    }
    rank.values[amax.getResult()] = place;
  }
}

void RanksInterpreter::visit(AmaxOp amax) {
  auto [group, param] = groups.lookupParam(amax.getParamAttr());
  PartialAmaxOp part = findPartialAmax(amax.getTotal());
  std::optional<int64_t> begin =
      group && part ? findAmaxBegin(part, group->getName()) : std::nullopt;
  if (!begin)
    throw std::runtime_error("the amax of parameter @" + amax.getParam().str() +
                             " comes from no all-reduce of its group");
  for (auto [index, rank] : llvm::enumerate(ranks))
    rank.values[amax.getResult()] =
        get(index, amax.getTotal(), amax).select(0, *begin + static_cast<int64_t>(param));
}

void RanksInterpreter::castToFloat8(EncodeOp encode, const GroupInfo &group) {
  GroupOp op = group.op;
  Float8CastAttr cast = op.getFloat8CastAttr();
  PartialAmaxOp taken = findPartialAmax(encode.getAmax());
  std::optional<int64_t> begin = taken ? findAmaxBegin(taken, group.getName()) : std::nullopt;
  if (!begin)
    throw std::runtime_error("group @" + op.getSymName().str() + " is cast by no amax of its own");
  const double largest = isa<Float8E4M3FNType>(cast.getDtype()) ? 448 : 57344;
  const double eps = cast.getEps().getValueAsDouble();
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    const unsigned part =
        findPosition(interpreter::findPeers(step.getMesh(op), op.getAxis(), index), index);
    at::Tensor shard = get(index, encode.getSource(), encode);
    at::Tensor place = rank.memory.placeFlat(group.gathered.shardElements,
                                             group.gathered.elementType, encode.getOffset());
    place.zero_();
    for (unsigned param = 0; param < group.params.size(); ++param) {
      at::Tensor amax =
          get(index, encode.getAmax(), encode).select(0, *begin + static_cast<int64_t>(param));
      auto round = [&](const at::Tensor &values) {
        return cast.getFrom() ? values.to(convertElementType(cast.getFrom())).to(at::kFloat)
                              : values;
      };
      const auto whole = round(amax).item<float>();
      float scale;
      if (cast.getScale().isF64()) {
        // The limit keeps a NaN.
        const double limited = whole < eps ? eps : static_cast<double>(whole);
        scale = static_cast<float>(1 / limited * largest);
      } else {
        const auto single = static_cast<float>(eps);
        scale = 1 / (whole < single ? single : whole) * static_cast<float>(largest);
      }
      forEachPiece(group, param, part, [&](const plan::Piece &piece) {
        at::Tensor values = round(shard.narrow(0, piece.shardOffset, piece.count)).mul(scale);
        if (cast.getSaturated())
          values = values.clamp(-largest, largest);
        place.narrow(0, piece.shardOffset, piece.count).copy_(values);
      });
    }
    rank.values[encode.getResult()] = place;
  }
}
