//===- AlignReads.cpp - Parameters at aligned addresses -------------------===//

#include "fsdp/Transforms/AlignReads.h"

#include "fsdp/IR/AtenBuilders.h"
#include "fsdp/IR/TensorLayout.h"
#include "fsdp/Plan/ArenaPlanner.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

/// The contiguous parameters that begin at unaligned addresses.
static DenseSet<StringAttr> findUnaligned(Step &step) {
  DenseSet<StringAttr> unaligned;
  for (GroupOp group : step.groups) {
    if (group.getLayout() == Layout::Flat || step.getShards(group) > 1 ||
        group.areParametersOnHost())
      continue;
    int64_t begin = 0;
    for (ParamOp param : step.getParams(group)) {
      auto type = cast<RankedTensorType>(param.getType());
      if (begin % plan::kArenaAlignmentBytes != 0 && !type.getEncoding())
        unaligned.insert(param.getSymNameAttr());
      begin += type.getNumElements() * getElementBytes(type.getElementType());
    }
  }
  return unaligned;
}

/// Gives the operators a copy, but for casts, whose results are aligned, and which compute elements
/// one by one.
static void copyForOperators(ReadOp read) {
  CallOp first;
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : read.getResult().getUses()) {
    auto call = dyn_cast<CallOp>(use.getOwner());
    if (!call || call.getCallee() == "_to_copy.default")
      continue;
    uses.push_back(&use);
    if (!first || call->isBeforeInBlock(first))
      first = call;
  }
  if (!first)
    return;
  OpBuilder builder(first);
  Value copy =
      aten::cloneContiguously(builder, read.getResult(), first.getPhase(), first.getScopeAttr());
  for (OpOperand *use : uses)
    use->set(copy);
}

void fsdp::alignReads(Step &step) {
  const DenseSet<StringAttr> unaligned = findUnaligned(step);
  if (unaligned.empty())
    return;
  for (auto read : llvm::to_vector(step.getBody().getOps<ReadOp>()))
    if (unaligned.contains(read.getSourceAttr().getAttr()))
      copyForOperators(read);
}
