//===- LowerFloat8.cpp - Casts of shards to 8-bit floats ------------------===//

#include "Lowering.h"
#include "fsdp/Analysis/Float8Gathers.h"

using namespace mlir;
using namespace fsdp;

static fsdp_argument makeArgument(fsdp_argument_kind kind, int64_t integer) {
  fsdp_argument argument{
      .kind = static_cast<uint32_t>(kind), .index = 0, .count = 0, .reserved = 0, .payload = {}};
  argument.payload.integer = integer;
  return argument;
}

static fsdp_argument makeValue(uint32_t value) {
  fsdp_argument argument = makeArgument(FSDP_ARG_VALUE, 0);
  argument.index = value;
  return argument;
}

/// In the flat layout a rank's part of a parameter depends on the rank: the operators take the
/// whole shard. In the per-param layout all ranks have equal parts.
SmallVector<fsdp_argument> Lowering::getFloat8Part(const GroupInfo &group, unsigned param,
                                                   int64_t base) {
  const plan::ParameterPlace &place = group.layout.parameters[param];
  StringRef name = ParamOp(group.params[param]).getSymName();
  const bool isFlat = group.isFlat();
  const int64_t elements = isFlat ? group.layout.shardElements : place.chunkElements;
  if (!isFlat)
    base += place.offset * group.master.elementBytes;
  uint32_t part =
      builder.addStridedValue(*getPlanDType(group.master.elementType), {elements}, {1}, base, name);
  const int64_t begin = isFlat ? place.offset : 0;
  const int64_t end = isFlat ? begin + group.getParamElements(param) : elements;
  return {makeValue(part),
          isFlat ? makeArgument(FSDP_ARG_PART, group.getShards()) : makeArgument(FSDP_ARG_INT, 0),
          makeArgument(FSDP_ARG_INT, begin), makeArgument(FSDP_ARG_INT, end)};
}

uint32_t Lowering::getAmaxValue(int64_t base, int64_t index, StringRef param) {
  return builder.addStridedValue(FSDP_F32, {1}, {1},
                                 base + index * static_cast<int64_t>(sizeof(float)), param);
}

/// Each parameter's call begins with 0, which remains where a rank has no part.
LogicalResult Lowering::lower(PartialAmaxOp amax) {
  FailureOr<int64_t> offset = getOffset(amax, amax.getOffset());
  if (failed(offset) || failed(define(amax.getResult(), *offset)))
    return failure();
  int64_t index = 0;
  for (Value shard : amax.getShards()) {
    const GroupInfo &group = groups.lookup(cast<ShardType>(shard.getType()));
    for (unsigned param = 0; param < group.params.size(); ++param) {
      StringRef name = ParamOp(group.params[param]).getSymName();
      SmallVector<fsdp_argument> arguments = getFloat8Part(group, param, baseOf.lookup(shard));
      arguments.push_back(makeValue(getAmaxValue(*offset, index++, name)));
      addCallInPlace(FSDP_FORWARD, "fsdp_float8::amax", arguments, name, amax.getLoc());
    }
  }
  return success();
}

LogicalResult Lowering::lower(AmaxOp amax) {
  auto [group, param] = groups.lookupParam(amax.getParamAttr());
  std::optional<int64_t> begin;
  if (PartialAmaxOp part = findPartialAmax(amax.getTotal()))
    begin = findAmaxBegin(part, group->getName());
  if (!begin)
    return amax.emitOpError("takes what is not the amax of its parameter");
  return define(amax.getResult(), baseOf.lookup(amax.getTotal()) +
                                      (*begin + param) * static_cast<int64_t>(sizeof(float)));
}

LogicalResult Lowering::castToFloat8(EncodeOp encode, const GroupInfo &group, int64_t offset) {
  std::optional<int64_t> begin;
  if (PartialAmaxOp part = findPartialAmax(encode.getAmax()))
    begin = findAmaxBegin(part, group.getName());
  if (!begin)
    return encode.emitOpError("takes what is not the amax of its parameters");
  Float8CastAttr cast = GroupOp(group.op).getFloat8CastAttr();
  fsdp_argument eps = makeArgument(FSDP_ARG_FLOAT, 0);
  eps.payload.real = cast.getEps().getValueAsDouble();
  const int64_t source = baseOf.lookup(encode.getSource());
  const int64_t amax = baseOf.lookup(encode.getAmax());
  // The bytes between parameters are gathered, too.
  addZero(offset, offset + group.gathered.shardBytes, getModuleName(group), FSDP_FORWARD);
  for (unsigned param = 0; param < group.params.size(); ++param) {
    const plan::ParameterPlace &place = group.layout.parameters[param];
    StringRef name = ParamOp(group.params[param]).getSymName();
    const int64_t elements = group.isFlat() ? group.layout.shardElements : place.chunkElements;
    SmallVector<fsdp_argument> arguments = getFloat8Part(group, param, source);
    arguments.push_back(makeValue(getAmaxValue(amax, *begin + param, name)));
    arguments.push_back(cast.getFrom() ? makeArgument(FSDP_ARG_DTYPE, *getPlanDType(cast.getFrom()))
                                       : makeArgument(FSDP_ARG_NONE, 0));
    arguments.push_back(makeArgument(FSDP_ARG_DTYPE, *getPlanDType(cast.getScale())));
    arguments.push_back(eps);
    arguments.push_back(makeArgument(FSDP_ARG_BOOL, cast.getSaturated()));
    arguments.push_back(
        makeValue(builder.addStridedValue(*getPlanDType(cast.getDtype()), {elements}, {1},
                                          offset + (group.isFlat() ? 0 : place.offset), name)));
    addCallInPlace(FSDP_FORWARD, "fsdp_float8::cast", arguments, name, encode.getLoc());
  }
  return success();
}
