//===- LowerClipping.cpp - The norm of all gradients ----------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace fsdp;

LogicalResult Lowering::lower(SquareSumOp sum) {
  FailureOr<int64_t> offset = getOffset(sum, sum.getOffset());
  if (failed(offset) || failed(define(sum.getResult(), *offset)))
    return failure();
  fsdp_entry &entry = builder.addEntry(FSDP_SQUARE_SUM, FSDP_BACKWARD);
  entry.dtype = FSDP_F64;
  entry.destination = *offset;
  entry.bytes = sizeof(double);
  entry.count = 1;
  entry.location = builder.addLocation(sum.getLoc());
  return success();
}

/// Plans know one: of the square sum, over the axis of the shards.
LogicalResult Lowering::lowerTensorReduction(AllReduceStartOp start) {
  if (!start.getSource().getDefiningOp<SquareSumOp>() || start.getReduceOp() != ReduceOp::Sum)
    return start.emitOpError("of a tensor that is no fsdp.square_sum has no form in plans");
  fsdp_entry &entry = builder.addEntry(FSDP_SQUARE_SUM_ALL_REDUCE_START, FSDP_BACKWARD);
  entry.stream = getPlanStream(start.getStream());
  entry.dtype = FSDP_F64;
  entry.handle = handleOf[start.getHandle()] = builder.tables.header.num_handles++;
  entry.source = entry.destination = baseOf.lookup(start.getSource());
  entry.bytes = sizeof(double);
  entry.count = 1;
  entry.location = builder.addLocation(start.getLoc());
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
