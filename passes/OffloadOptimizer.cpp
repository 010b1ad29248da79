//===- OffloadOptimizer.cpp - Keeps optimizer state in host memory --------===//

#include "fsdp/Analysis/GroupTable.h"
#include "fsdp/Analysis/Step.h"
#include "fsdp/IR/OptimizerOptions.h"
#include "fsdp/Transforms/Decisions.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "passes/Passes.h"

namespace fsdp {
#define GEN_PASS_DEF_OFFLOADOPTIMIZER
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

static void insertCopies(UpdateOp update) {
  OpBuilder builder(update);
  Location loc = update.getLoc();
  auto handle = HandleType::get(update.getContext());
  auto fetch = FetchStateStartOp::create(builder, loc, handle, update.getTargetAttr(),
                                         /*offsets=*/DenseI64ArrayAttr());
  auto state = StateType::get(update.getContext(), update.getTargetAttr());
  auto wait = FetchStateWaitOp::create(builder, loc, state, fetch.getHandle());
  update.getStateMutable().assign(wait.getState());
  builder.setInsertionPointAfter(update);
  auto store = StoreStateStartOp::create(builder, loc, handle, wait.getState());
  StoreStateWaitOp::create(builder, loc, store.getHandle());
}

/// Checks that a place in the group's attribute already agrees with the request.
static LogicalResult checkPlace(GroupOp group, bool isAsked) {
  std::optional<StatePlace> place = group.getOptimizerState();
  std::optional<bool> request = group.getOffloadOptimizer();
  // A search may have marked a group without a request.
  if (!place || isAsked == group.isStateOnHost() || (!request && !isAsked))
    return success();
  InFlightDiagnostic diag = group.emitError("group @")
                            << group.getSymName() << " has optimizer_state "
                            << stringifyStatePlace(*place) << " already, but ";
  if (request)
    return diag << "asks for offload_optimizer " << (*request ? "true" : "false");
  return diag << "the optimizer state of all groups is to be offloaded";
}

namespace {
struct OffloadOptimizerPass : public fsdp::impl::OffloadOptimizerBase<OffloadOptimizerPass> {
  using OffloadOptimizerBase::OffloadOptimizerBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, getArgument(), ModulePhase::Sharded)))
      return signalPassFailure();
    FailureOr<Step> step = Step::collect(module);
    if (failed(step))
      return signalPassFailure();
    if (offload == OffloadPolicy::Auto) {
      module.emitError("offload-optimizer=auto needs a search: schedule=auto or asap, several "
                       "ranks and a memory-cap; expected all or none");
      return signalPassFailure();
    }
    int64_t numOffloaded = 0, numStates = 0;
    if (step->optimizer)
      numStates = getStateNames(step->optimizer).size();
    for (GroupOp group : step->groups) {
      // FSDP2's optimizer updates parameters where they are.
      bool isWanted =
          offload == OffloadPolicy::All || (group.areParametersOnHost() && numStates > 0);
      bool isAsked = group.getOffloadOptimizer().value_or(isWanted);
      if (step->getTrained(group).empty()) {
        if (group.getOffloadOptimizer() == true)
          recordDecision(group,
                         {Subject::OptimizerState, "is not offloaded",
                          "the optimizer keeps nothing of frozen parameters"},
                         getArgument());
        continue;
      }
      if (failed(checkPlace(group, isAsked)))
        return signalPassFailure();
      if (isAsked)
        group.setOptimizerState(StatePlace::Host);
      numOffloaded += group.isStateOnHost();
    }
    if (numOffloaded > 0 && numStates == 0) {
      InFlightDiagnostic diag = module.emitError(
          "offload_optimizer: the optimizer keeps no state that could be offloaded");
      if (step->optimizer)
        diag.attachNote(step->optimizer.getLoc()) << "the optimizer is declared here";
      return signalPassFailure();
    }
    for (UpdateOp update : llvm::make_early_inc_range(step->getBody().getOps<UpdateOp>())) {
      auto found = step->groupByName.find(update.getTargetAttr().getAttr());
      if (found != step->groupByName.end() && step->groups[found->second].isUpdatedFromHost())
        insertCopies(update);
    }
    remark::analysis(module.getLoc(), remark::RemarkOpts::name("offload").category(getArgument()))
        << remark::metric("OffloadedGroups", numOffloaded)
        << remark::metric("Groups", step->groups.size());
  }
};
} // namespace
