//===- Unshard.cpp - The captured step behind a sharded one ---------------===//

#include "passes/Unshard.h"

#include "fsdp/Analysis/Step.h"
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
  void replace(ReduceScatterStartOp start);
  void replace(UpdateOp update);
  GroupOp lookup(FlatSymbolRefAttr group) {
    return step.groups[step.groupByName.lookup(group.getAttr())];
  }

  Step &step;
  OpBuilder builder;
  DenseMap<StringAttr, Value> reads; // by parameter
};

} // namespace

void Unsharder::replace(AllGatherWaitOp wait) {
  auto start = wait.getHandle().getDefiningOp<AllGatherStartOp>();
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

void Unsharder::replace(ReduceScatterStartOp start) {
  builder.setInsertionPoint(start);
  for (auto [gradient, name] :
       llvm::zip_equal(start.getGrads(), lookup(start.getGroupAttr()).getParams()))
    GradOp::create(builder, start.getLoc(), cast<FlatSymbolRefAttr>(name), gradient);
}

void Unsharder::replace(UpdateOp update) {
  builder.setInsertionPoint(update);
  for (Attribute name : lookup(update.getTargetAttr()).getParams())
    UpdateOp::create(builder, update.getLoc(), cast<FlatSymbolRefAttr>(name), update.getStep(),
                     update.getLr(), /*clip=*/nullptr, /*offset=*/nullptr);
}

void Unsharder::run() {
  SmallVector<Operation *> replaced;
  for (Operation &op : llvm::make_early_inc_range(step.getBody())) {
    if (auto wait = dyn_cast<AllGatherWaitOp>(op))
      replace(wait);
    else if (auto start = dyn_cast<ReduceScatterStartOp>(op))
      replace(start);
    else if (auto update = dyn_cast<UpdateOp>(op);
             update && step.groupByName.contains(update.getTargetAttr().getAttr()))
      replace(update);
    else if (!isa<AllGatherStartOp, ReleaseOp, ReduceScatterWaitOp, AllReduceStartOp,
                  AllReduceWaitOp, FetchStateStartOp, FetchStateWaitOp, StoreStateStartOp,
                  StoreStateWaitOp, SquareSumOp, SquareSumAllReduceStartOp,
                  SquareSumAllReduceWaitOp, ClipFactorOp>(op))
      continue;
    replaced.push_back(&op);
  }
  for (Operation *op : llvm::reverse(replaced))
    op->erase();
  setPhase(step.module, ModulePhase::Captured);
}

LogicalResult fsdp::unshard(ModuleOp module) {
  FailureOr<Step> step = Step::collect(module);
  if (failed(step))
    return failure();
  Unsharder(*step).run();
  return success();
}
