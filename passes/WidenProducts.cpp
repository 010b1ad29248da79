//===- WidenProducts.cpp - Products that store fp32 gradients -------------===//

#include "passes/WidenProducts.h"

#include "fsdp/Analysis/WideProducts.h"
#include "mlir/IR/Builders.h"
#include "passes/FusionClusters.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

namespace {
/// A product, the views through which its cast reads it, and the cast.
struct Chain {
  CallOp product;
  SmallVector<CallOp> views; // the product's view first
  CallOp cast;
};
} // namespace

static std::optional<Chain> findChain(CallOp cast) {
  if (!isGradientCast(cast) || !isCastToFloat(cast))
    return std::nullopt;
  Chain chain;
  chain.cast = cast;
  for (Value read = cast.getOperand(0); read.hasOneUse(); read = chain.views.back().getOperand(0)) {
    auto call = read.getDefiningOp<CallOp>();
    if (call && isNarrowProduct(call)) {
      chain.product = call;
      std::reverse(chain.views.begin(), chain.views.end());
      return chain;
    }
    if (!call || !isWholeView(call))
      return std::nullopt;
    chain.views.push_back(call);
  }
  return std::nullopt;
}

/// Inserts, before the product, the product in fp32.
static Value addWide(OpBuilder &builder, CallOp call, ValueRange operands) {
  auto wide = cast<CallOp>(builder.clone(*call));
  wide->setOperands(operands);
  wide.getResult(0).setType(widen(call.getResult(0).getType()));
  if (isNarrowProduct(call)) {
    wide.setCalleeAttr(getWideCallee(call));
    wide.setArgsAttr(getWideArguments(call));
  }
  return wide.getResult(0);
}

static void rewrite(const Chain &chain) {
  OpBuilder builder(CallOp(chain.product));
  SmallVector<CallOp> left; // views without pairs that cancel each other
  for (CallOp view : chain.views)
    if (!left.empty() && areInverse(left.back(), view))
      left.pop_back();
    else
      left.push_back(view);
  Value wide = addWide(builder, chain.product, CallOp(chain.product).getOperands());
  for (CallOp view : left)
    wide = addWide(builder, view, wide);
  CallOp cast = chain.cast;
  cast.getResult(0).replaceAllUsesWith(wide);
  cast.erase();
  for (CallOp view : llvm::reverse(chain.views))
    view.erase();
  CallOp(chain.product).erase();
}

int64_t fsdp::widenProducts(func::FuncOp step) {
  SmallVector<Chain> chains;
  for (CallOp call : step.getOps<CallOp>())
    if (std::optional<Chain> chain = findChain(call))
      chains.push_back(*chain);
  llvm::for_each(chains, rewrite);
  return static_cast<int64_t>(chains.size());
}
