//===- LowerClipping.cpp - The norm of all gradients ----------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace fsdp;

LogicalResult Lowering::lower(ShardNormOp norm) {
  ShardType shard = norm.getGradient().getType();
  const GroupInfo &group = groups.lookup(shard);
  fsdp_entry &entry = builder.addEntry(FSDP_SHARD_NORM, FSDP_BACKWARD);
  entry.dtype = *getPlanDType(shard.getElementType());
  entry.target = group.index;
  entry.source = baseOf.lookup(norm.getGradient());
  entry.count = group.gradients.shardElements;
  entry.location = builder.addLocation(norm.getLoc());
  return success();
}

LogicalResult Lowering::lower(PartialNormOp norm) {
  FailureOr<int64_t> offset = getOffset(norm, norm.getOffset());
  if (failed(offset) || failed(define(norm.getResult(), *offset)))
    return failure();
  fsdp_entry &entry = builder.addEntry(FSDP_PARTIAL_NORM, FSDP_BACKWARD);
  entry.dtype = FSDP_F64;
  entry.destination = *offset;
  entry.bytes = sizeof(double);
  entry.count = 1;
  entry.location = builder.addLocation(norm.getLoc());
  return success();
}

/// The tensor reductions in plans: of the amax of parameters, by max (S2), and of the norm, by its
/// norm type (S8), over the shard axis.
LogicalResult Lowering::lowerTensorReduction(AllReduceStartOp start) {
  if (auto amax = start.getSource().getDefiningOp<PartialAmaxOp>()) {
    fsdp_entry &entry = addStart(FSDP_AMAX_ALL_REDUCE_START, start);
    entry.dtype = FSDP_F32;
    entry.source = entry.destination = baseOf.lookup(amax.getResult());
    entry.count = cast<RankedTensorType>(amax.getResult().getType()).getNumElements();
    entry.bytes = entry.count * static_cast<int64_t>(sizeof(float));
    return success();
  }
  if (!start.getSource().getDefiningOp<PartialNormOp>())
    return start.emitOpError("of a tensor that is no fsdp.partial_norm or "
                             "fsdp.partial_amax has no form in plans");
  fsdp_entry &entry = addStart(FSDP_NORM_ALL_REDUCE_START, start);
  entry.dtype = FSDP_F64;
  entry.source = entry.destination = baseOf.lookup(start.getSource());
  entry.bytes = sizeof(double);
  entry.count = 1;
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
