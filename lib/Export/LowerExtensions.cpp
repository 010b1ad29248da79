//===- LowerExtensions.cpp - Operators around collectives -----------------===//
//
// The transforms before and after gathers, and the hooks after reductions, are torch operators,
// which the runtime calls like those of the model.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"
#include "fsdp/IR/TensorLayout.h"

using namespace mlir;
using namespace fsdp;

static std::string getOperator(StringRef name, StringRef what) {
  return ("fsdp_extension::" + name + "_" + what).str();
}

void Lowering::addCallInPlace(fsdp_phase phase, StringRef callee, ArrayRef<uint32_t> values,
                              StringRef module, Location location) {
  SmallVector<fsdp_argument> arguments;
  for (uint32_t value : values)
    arguments.push_back(
        {.kind = FSDP_ARG_VALUE, .index = value, .count = 0, .reserved = 0, .payload = {}});
  addCallInPlace(phase, callee, arguments, module, location);
}

void Lowering::addCallInPlace(fsdp_phase phase, StringRef callee, ArrayRef<fsdp_argument> values,
                              StringRef module, Location location) {
  addCall(phase, callee, "", values, {values.back().index}, module, location);
}

LogicalResult Lowering::lower(EncodeOp encode) {
  FailureOr<int64_t> offset = getOffset(encode, encode.getOffset());
  if (failed(offset))
    return failure();
  const GroupInfo &group = groups.lookup(encode.getSource().getType());
  baseOf[encode.getResult()] = *offset;
  if (encode.getAmax())
    return castToFloat8(encode, group, *offset);
  AllGatherExtensionAttr extension = GroupOp(group.op).getAllGatherExtensionAttr();
  int64_t source = baseOf.lookup(encode.getSource());
  for (auto [i, place] : llvm::enumerate(group.layout.parameters)) {
    if (place.chunkElements == 0)
      continue;
    ParamOp param = group.params[i];
    StringRef name = param.getSymName();
    uint32_t part =
        builder.addStridedValue(*getPlanDType(group.master.elementType), {place.chunkElements}, {1},
                                source + place.offset * group.master.elementBytes, name);
    uint32_t bytes =
        builder.addStridedValue(FSDP_U8, {extension.getEncodedBytes(place.chunkElements)}, {1},
                                *offset + group.encodedBegins[i], name);
    addCallInPlace(FSDP_FORWARD, getOperator(extension.getName(), "encode"), {part, bytes}, name,
                   encode.getLoc());
  }
  return success();
}

LogicalResult Lowering::decode(AllGatherWaitOp wait, const GroupInfo &group, int64_t gathered) {
  AllGatherExtensionAttr extension = GroupOp(group.op).getAllGatherExtensionAttr();
  for (auto [i, value] : llvm::enumerate(wait.getResults())) {
    ParamOp param = group.params[i];
    auto type = cast<RankedTensorType>(value.getType());
    if (!isContiguous(type))
      return wait.emitOpError("decodes parameter @")
             << param.getSymName()
             << " to strides of its own; expected a contiguous one, as its parts are";
    if (failed(define(value, (*wait.getOffsets())[i])))
      return failure();
    int64_t partElements = group.layout.parameters[i].chunkElements;
    if (partElements == 0)
      continue;
    int64_t ranks = group.layout.ranks;
    uint32_t parts = builder.addStridedValue(
        FSDP_U8, {ranks, extension.getEncodedBytes(partElements)}, {group.gathered.shardBytes, 1},
        gathered + group.encodedBegins[i], param.getSymName());
    addCallInPlace(getPlanPhase(wait.getStart().getPhase()),
                   getOperator(extension.getName(), "decode"), {parts, valueOf.lookup(value)},
                   getModuleName(group), wait.getLoc());
  }
  return success();
}

LogicalResult Lowering::lower(AllReduceHookOp hook) {
  const GroupInfo &group = groups.lookup(hook.getSource().getType());
  StringRef name = *GroupOp(group.op).getAllReduceHook();
  addCallInPlace(FSDP_BACKWARD, getOperator(name, "hook"), {getShardValue(hook.getSource())},
                 getModuleName(group), hook.getLoc());
  baseOf[hook.getResult()] = baseOf.lookup(hook.getSource());
  return success();
}
