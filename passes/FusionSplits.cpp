//===- FusionSplits.cpp - Splits calls for kernels ------------------------===//

#include "passes/FusionSplits.h"

#include "fsdp/Analysis/SplitCalls.h"
#include "fsdp/Codegen/Rearrangement.h"
#include "fsdp/Codegen/ScalarCode.h"
#include "mlir/IR/Builders.h"
#include "passes/FusionClusters.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

/// Inserts the parts of a split before the call.
static SmallVector<CallOp> addParts(CallOp call, const SplitCall &split,
                                    SmallVectorImpl<Value> &values) {
  OpBuilder builder(call);
  llvm::append_range(values, call.getOperands());
  SmallVector<CallOp> parts;
  for (const SplitCall::Part &part : split.parts) {
    auto operands = llvm::map_to_vector(part.operands, [&](unsigned i) { return values[i]; });
    parts.push_back(CallOp::create(builder, call.getLoc(), part.results, operands,
                                   builder.getStringAttr(part.callee),
                                   builder.getArrayAttr(part.arguments), call.getPhase(),
                                   call.getScopeAttr(), /*rng=*/nullptr, /*offsets=*/nullptr));
    llvm::append_range(values, parts.back().getResults());
  }
  return parts;
}

/// True for a call whose result a kernel computes element by element.
static bool isComputing(CallOp call, Rounding rounding) {
  return !isGradientCast(call) &&
         (codegen::isElementwise(call, rounding) || codegen::isRowOperator(call, rounding));
}

/// True if a kernel of the same window computes the summed value; `computed` has the window's calls
/// in kernels.
static bool isComputed(Value summed, const llvm::SmallPtrSetImpl<Operation *> &computed) {
  auto call = summed.getDefiningOp<CallOp>();
  for (; call && codegen::isRowRegrouping(call); call = call.getOperand(0).getDefiningOp<CallOp>())
    ;
  return call && computed.contains(call);
}

void fsdp::splitCalls(func::FuncOp step, Rounding rounding) {
  llvm::SmallPtrSet<Operation *, 32> computed; // by kernels, since the window began
  for (Operation &op : llvm::make_early_inc_range(step.getBody().front())) {
    auto call = dyn_cast<CallOp>(op);
    if (endsWindow(op))
      computed.clear();
    if (!call)
      continue;
    if (isComputing(call, rounding))
      computed.insert(call);
    const bool isLoss = isLossOfRows(call), isOfColumns = isLargeSumOfColumns(call),
               isNorm = fsdp::isNorm(call);
    auto rows = isLoss ? call.getOperand(0).getDefiningOp<CallOp>() : CallOp();
    if (isLoss && !(rows && codegen::isRowOperator(rows, rounding)))
      continue;
    if (isNorm && rounding != Rounding::Fast)
      continue;
    if (isOfColumns && (rounding != Rounding::Fast || !isComputed(call.getOperand(0), computed)))
      continue;
    std::optional<SplitCall> split = splitCall(call);
    if (!split)
      continue;
    SmallVector<Value> values;
    SmallVector<CallOp> parts = addParts(call, *split, values);
    if (!isLoss && !isOfColumns && !isNorm && !codegen::isRowReduction(parts.front(), rounding)) {
      for (CallOp part : llvm::reverse(parts))
        part.erase();
      continue;
    }
    for (auto [result, i] : llvm::zip_equal(call.getResults(), split->results))
      result.replaceAllUsesWith(values[i]);
    for (CallOp part : parts)
      if (isComputing(part, rounding))
        computed.insert(part);
    call.erase();
  }
}
