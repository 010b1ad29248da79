//===- ReduceGradients.cpp - Reductions and updates of gradients ----------===//

#include "fsdp/Transforms/ReduceGradients.h"

#include "fsdp/Analysis/Clipping.h"
#include "fsdp/Analysis/GradientRounding.h"
#include "fsdp/IR/AtenBuilders.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;
using aten::Phase;

Value GradientReductions::allReduce(Value source, Type type, ArrayRef<Attribute> axes,
                                    const Reduction &how, Location loc) {
  auto start = AllReduceStartOp::create(builder, loc, HandleType::get(builder.getContext()), source,
                                        builder.getArrayAttr(axes), how.op,
                                        getDivisor(how.predivide), getDivisor(how.postdivide),
                                        Phase::Backward, Stream::Compute, /*coalesced=*/nullptr);
  ++numAllReduces;
  return AllReduceWaitOp::create(builder, loc, type, start.getHandle());
}

Value GradientReductions::reduce(GroupOp group, ValueRange gradients, bool isAcross) {
  MLIRContext *context = builder.getContext();
  auto name = FlatSymbolRefAttr::get(group.getSymNameAttr());
  Location loc = group.getLoc();
  Type dtype = cast<RankedTensorType>(gradients.front().getType()).getElementType();
  auto type = ShardType::get(context, name, dtype);
  GradientDivision division = getDivision(group, dtype);
  if (!isSharded(group)) {
    Value packed = PackOp::create(builder, loc, type, name, gradients, getDivisor(division.alone),
                                  /*offset=*/nullptr);
    return isAcross ? reduceAcross(group, packed, type, division.across) : packed;
  }
  auto start = ReduceScatterStartOp::create(
      builder, loc, HandleType::get(context), name, gradients,
      builder.getArrayAttr(group.getAxisAttr()), division.scatter.op,
      getDivisor(division.scatter.predivide), getDivisor(division.scatter.postdivide),
      Phase::Backward, Stream::Compute,
      /*coalesced=*/nullptr, /*offsets=*/nullptr);
  Value shard = ReduceScatterWaitOp::create(builder, loc, type, start.getHandle());
  ++numReduceScatters;
  if (!isAcross)
    return shard;
  // Through the handle: the compute stream does not wait in between.
  return reduceAcross(group, start.getHandle(), type, division.across);
}

Value GradientReductions::callHook(GroupOp group, Value reduced) {
  if (!group.getAllReduceHook())
    return reduced;
  return AllReduceHookOp::create(builder, group.getLoc(), reduced.getType(), reduced);
}

/// True if a microbatch's gradients are added up without any processing before.
bool GradientReductions::isLeftAlone(GroupOp group) {
  return !isSharded(group) && !isReplicated(group) && !group.getReduceDtype() &&
         !group.getAllReduceHook() &&
         group.getGradientDivideFactor().value_or(llvm::APFloat(1.0)).isExactlyValue(1);
}

/// True if no other operation uses the bytes of a gradient, so that others may be added in place.
static bool isUnshared(Value gradient) {
  auto call = gradient.getDefiningOp<CallOp>();
  auto type = cast<RankedTensorType>(gradient.getType());
  return call && !call.isView() && gradient.hasOneUse() && !type.getEncoding();
}

void GradientReductions::addWhole(Sum &sum, GroupOp group, ArrayRef<Value> gradients) {
  if (!sum.whole.empty()) {
    for (auto [total, gradient] : llvm::zip_equal(sum.whole, gradients))
      total = AccumulateOp::create(builder, gradient.getLoc(), total.getType(), total,
                                   getUnrounded(group, gradient));
    return;
  }
  auto scope = aten::ScopeAttr::get(builder.getContext(), "");
  for (Value gradient : gradients)
    sum.whole.push_back(isUnshared(gradient)
                            ? gradient
                            : aten::cloneContiguously(builder, gradient, Phase::Backward, scope));
}

void GradientReductions::addShard(Sum &sum, GroupOp group, Value shard) {
  Location loc = group.getLoc();
  if (sum.shard) {
    sum.shard = AccumulateOp::create(builder, loc, sum.shard.getType(), sum.shard, shard);
    return;
  }
  // Fully reduced gradients accumulate in the parameters' dtype, gradients that still need the
  // reduction over replicas in their own.
  Type own = cast<RankedTensorType>(step.getParams(group).front().getType()).getElementType();
  auto type = cast<ShardType>(shard.getType());
  bool isPartial = group.getGradientSync() == GradientSync::ReduceScatter;
  if (lastMicrobatch > 0 && !isPartial && type.getElementType() != own)
    shard = CastOp::create(builder, loc, ShardType::get(type.getContext(), type.getGroup(), own),
                           shard, /*offset=*/nullptr);
  sum.shard = shard;
}

void GradientReductions::reduceEarlier(unsigned index) {
  GroupOp group = step.groups[index];
  Sum &sum = sums[index];
  if (sum.whole.empty() || isLeftAlone(group))
    return;
  addShard(sum, group, callHook(group, reduce(group, sum.whole, isReplicated(group))));
  sum.whole.clear();
}

void GradientReductions::add(unsigned index, ArrayRef<Value> gradients, int64_t microbatch) {
  if (gradients.empty())
    return;
  GroupOp group = step.groups[index];
  Sum &sum = sums[index];
  bool isAccumulated = lastMicrobatch > 0, isLast = microbatch == lastMicrobatch;
  GradientSync sync = group.getGradientSync().value_or(GradientSync::Each);
  bool isAddedWhole = sync == GradientSync::Last || isLeftAlone(group);
  bool isAlone = isLast && sum.whole.empty(); // earlier gradients are already reduced
  if (isAccumulated && isAddedWhole && !isAlone) {
    addWhole(sum, group, gradients);
    if (!isLast)
      return;
    gradients = sum.whole;
  }
  bool isPartial = isAccumulated && sync == GradientSync::ReduceScatter;
  Value shard = reduce(group, gradients, isReplicated(group) && !isPartial);
  addShard(sum, group, isPartial ? shard : callHook(group, shard));
  if (!isLast)
    return;
  if (isPartial) {
    auto type = cast<ShardType>(sum.shard.getType());
    if (isReplicated(group))
      sum.shard =
          reduceAcross(group, sum.shard, type, getDivision(group, type.getElementType()).across);
    sum.shard = callHook(group, sum.shard);
  }
  reduced.push_back({group, sum.shard});
  if (!step.optimizer || !step.optimizer.needsNorm())
    update(group, sum.shard, /*clip=*/{});
}

Value GradientReductions::getLossScale() {
  LossScaleOp scale = step.getLossScale();
  return scale ? scale.getResult() : Value();
}

void GradientReductions::update(GroupOp group, Value gradient, Value clip) {
  UpdateOp::create(builder, group.getLoc(), FlatSymbolRefAttr::get(group.getSymNameAttr()),
                   gradient, number, rate, clip, getLossScale(), /*state=*/Value());
}

void GradientReductions::finish() {
  if (!step.optimizer || !step.optimizer.needsNorm() || reduced.empty())
    return;
  Location loc = step.optimizer.getLoc();
  auto type = RankedTensorType::get({}, builder.getF64Type());
  auto gradients = llvm::map_to_vector(reduced, [](auto &entry) { return entry.second; });
  NormType normType = step.optimizer.getClipNormType();
  Value norm = PartialNormOp::create(builder, loc, type, normType, gradients, /*offset=*/nullptr);
  if (NormAxes over = step.getNormAxes(); over.ranks > 1)
    norm = allReduce(norm, type, over.axes, {getNormReduceOp(normType)}, loc);
  Value clip = ClipFactorOp::create(builder, loc, builder.getF32Type(), norm, getLossScale());
  for (auto [group, gradient] : reduced)
    update(group, gradient, clip);
}
