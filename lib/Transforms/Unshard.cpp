//===- Unshard.cpp - From a sharded to a captured step --------------------===//

#include "fsdp/Transforms/Unshard.h"

#include "fsdp/Analysis/Step.h"
#include "fsdp/Analysis/StepStorage.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fsdp;

namespace {

class Unsharder {
public:
  explicit Unsharder(Step &step) : step(step), builder(step.module.getContext()) {}
  void run();

private:
  void replace(AllGatherWaitOp wait);
  void replace(StepOpInterface reduction);
  void replace(UpdateOp update);
  GroupOp lookup(FlatSymbolRefAttr group) {
    return step.groups[step.groupByName.lookup(group.getAttr())];
  }

  Step &step;
  OpBuilder builder;
  DenseMap<StringAttr, Value> reads;      // by parameter
  DenseMap<StringAttr, int64_t> numGrads; // by parameter: of the microbatches so far
};

} // namespace

void Unsharder::replace(AllGatherWaitOp wait) {
  AllGatherStartOp start = wait.getStart();
  builder.setInsertionPoint(wait);
  for (auto [value, param] :
       llvm::zip_equal(wait.getResults(), step.getParams(lookup(start.getGroupAttr())))) {
    Value &read = reads[param.getSymNameAttr()];
    if (!read)
      read = ReadOp::create(builder, wait.getLoc(), value.getType(),
                            FlatSymbolRefAttr::get(param.getSymNameAttr()));
    value.replaceAllUsesWith(read);
  }
}

/// Replaces a reduce-scatter or an fsdp.pack by gradients.
void Unsharder::replace(StepOpInterface reduction) {
  builder.setInsertionPoint(reduction);
  auto group = reduction->getAttrOfType<FlatSymbolRefAttr>("group");
  for (auto [gradient, param] :
       llvm::zip_equal(reduction.getPacked(), step.getTrained(lookup(group)))) {
    // The summands that were added before the reduction, in reverse order.
    SmallVector<Value> parts = {gradient};
    while (auto sum = parts.back().getDefiningOp<AccumulateOp>()) {
      parts.back() = sum.getGradient();
      parts.push_back(sum.getSum());
    }
    for (Value part : llvm::reverse(parts)) {
      // Each gradient in its own microbatch.
      if (part == parts.front())
        builder.setInsertionPoint(reduction);
      else
        builder.setInsertionPointAfterValue(part);
      GradOp::create(builder, reduction.getLoc(), FlatSymbolRefAttr::get(param.getSymNameAttr()),
                     part, numGrads[param.getSymNameAttr()]++);
    }
  }
}

void Unsharder::replace(UpdateOp update) {
  builder.setInsertionPoint(update);
  for (ParamOp param : step.getTrained(lookup(update.getTargetAttr())))
    UpdateOp::create(builder, update.getLoc(), FlatSymbolRefAttr::get(param.getSymNameAttr()),
                     /*gradient=*/Value(), update.getStep(), update.getLr(), /*clip=*/Value(),
                     /*scale=*/Value(), /*state=*/Value());
}

void Unsharder::run() {
  SmallVector<Operation *> replaced;
  for (auto amax : step.getBody().getOps<AmaxOp>())
    amax.getTotalMutable().clear();
  for (Operation &op : llvm::make_early_inc_range(step.getBody())) {
    if (auto wait = dyn_cast<AllGatherWaitOp>(op))
      replace(wait);
    else if (auto packs = dyn_cast<StepOpInterface>(op); packs && !packs.getPacked().empty())
      replace(packs);
    else if (auto update = dyn_cast<UpdateOp>(op);
             update && step.groupByName.contains(update.getTargetAttr().getAttr()))
      replace(update);
    else if (auto fetched = dyn_cast<FetchWaitOp>(op))
      fetched.getResult().replaceAllUsesWith(skipHostCopies(fetched.getResult()));
    else if (auto inStep = dyn_cast<StepOpInterface>(op); !inStep || !inStep.isOfGroups())
      continue;
    replaced.push_back(&op);
  }
  for (Operation *op : llvm::reverse(replaced))
    op->erase();
  step.module->removeAttr(FsdpDialect::getProvenanceAttrName());
  setPhase(step.module, ModulePhase::Captured);
}

LogicalResult fsdp::unshard(ModuleOp module) {
  FailureOr<Step> step = Step::collect(module);
  if (failed(step))
    return failure();
  Unsharder(*step).run();
  return success();
}
