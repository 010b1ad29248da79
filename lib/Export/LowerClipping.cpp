//===- LowerClipping.cpp - The norm of all gradients ----------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace fsdp;

LogicalResult Lowering::lower(SquareSumOp sum) {
  FailureOr<int64_t> offset = getOffset(sum, sum.getOffset());
  if (failed(offset) || failed(define(sum.getResult(), *offset)))
    return failure();
  if (groups.getRanks() == 1)
    for (const GroupInfo &group : groups.getGroups()) {
      GroupOp op = group.op;
      UpdateOp update = updateOf.lookup(op.getSymNameAttr());
      if (!update)
        continue;
      FailureOr<int64_t> gradients = getOffset(update, update.getOffset());
      if (failed(gradients))
        return failure();
      zeroPadding(group, *gradients);
    }
  fsdp_entry &entry = builder.addEntry(FSDP_SQUARE_SUM, FSDP_BACKWARD);
  entry.dtype = FSDP_F64;
  entry.destination = *offset;
  entry.bytes = sizeof(double);
  entry.count = 1;
  entry.location = builder.addLocation(sum.getLoc());
  return success();
}

LogicalResult Lowering::lower(SquareSumAllReduceStartOp start) {
  fsdp_entry &entry = builder.addEntry(FSDP_SQUARE_SUM_ALL_REDUCE_START, FSDP_BACKWARD);
  entry.stream = getPlanStream(start.getStream());
  entry.dtype = FSDP_F64;
  entry.handle = handleOf[start.getHandle()] = builder.tables.header.num_handles++;
  entry.source = entry.destination = baseOf.lookup(start.getSquares());
  entry.bytes = sizeof(double);
  entry.count = 1;
  entry.location = builder.addLocation(start.getLoc());
  return success();
}

LogicalResult Lowering::lower(SquareSumAllReduceWaitOp wait) {
  auto start = wait.getHandle().getDefiningOp<SquareSumAllReduceStartOp>();
  addWait(wait, wait.getHandle(), FSDP_BACKWARD);
  valueOf[wait.getTotal()] = valueOf.lookup(start.getSquares());
  baseOf[wait.getTotal()] = baseOf.lookup(start.getSquares());
  return success();
}

LogicalResult Lowering::lower(ClipFactorOp factor) {
  fsdp_entry &entry = builder.addEntry(FSDP_CLIP_FACTOR, FSDP_BACKWARD);
  entry.dtype = FSDP_F64;
  entry.source = baseOf.lookup(factor.getTotal());
  entry.bytes = sizeof(double);
  entry.count = 1;
  entry.location = builder.addLocation(factor.getLoc());
  return success();
}
