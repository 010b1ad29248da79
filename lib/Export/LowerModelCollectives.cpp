//===- LowerModelCollectives.cpp - Collectives of the model's own code ----===//

#include "Lowering.h"
#include "fsdp/IR/TensorLayout.h"

using namespace mlir;
using namespace fsdp;

void Lowering::lowerModelCollective(aten::CallOp call, const ModelCollective &collective) {
  auto operand = cast<RankedTensorType>(call.getOperand(0).getType());
  auto result = cast<RankedTensorType>(call.getResult(0).getType());
  if (getStorageBytes(result) == 0)
    return;
  const fsdp_dtype dtype = *getPlanDType(operand.getElementType());
  const fsdp_phase phase = getPlanPhase(call.getPhase());
  auto placeOf = [&](Value value) { return builder.tables.values[valueOf.lookup(value)].offset; };
  const int64_t source = placeOf(call.getOperand(0)), destination = placeOf(call.getResult(0));
  const bool gathers = collective.kind == ModelCollectiveKind::AllGather;
  // Of one rank.
  const int64_t count = (gathers ? operand : result).getNumElements();
  if (declared.getWorldSize() == 1) {
    auto flat = [&](int64_t base) {
      return builder.addStridedValue(dtype, {count}, {1}, base, call.getModule());
    };
    uint32_t from = flat(source), to = flat(destination);
    addCopy(phase, from, to, call.getModule(), call.getLoc());
    return;
  }
  fsdp_entry &entry = builder.addEntry(gathers ? FSDP_MODEL_ALL_GATHER
                                       : collective.kind == ModelCollectiveKind::ReduceScatter
                                           ? FSDP_MODEL_REDUCE_SCATTER
                                           : FSDP_MODEL_ALL_REDUCE,
                                       phase);
  entry.stream = FSDP_COMPUTE;
  entry.communicator = communicators.lookupModel();
  entry.dtype = dtype;
  entry.count = count;
  entry.bytes = count * getElementBytes(operand.getElementType());
  entry.source = source;
  entry.destination = destination;
  if (!gathers)
    entry.reduce_op = collective.reduceOp == ReduceOp::Average ? FSDP_AVERAGE
                      : collective.reduceOp == ReduceOp::Max   ? FSDP_MAX
                                                               : FSDP_SUM;
  entry.module = builder.addString(call.getModule());
  entry.location = builder.addLocation(call.getLoc());
}

/// `select_copy(x, 0, rank)`.
void Lowering::lowerOwnPart(aten::CallOp call) {
  fsdp_argument row{}, dim{}, rank{};
  row.kind = FSDP_ARG_VALUE;
  row.index = valueOf.lookup(call.getOperand(0));
  dim.kind = FSDP_ARG_INT;
  rank.kind = FSDP_ARG_PART;
  rank.payload.integer = declared.getWorldSize();
  addCall(getPlanPhase(call.getPhase()), "aten::select_copy", "int", {row, dim, rank},
          {valueOf.lookup(call.getResult(0))}, call.getModule(), call.getLoc());
}
