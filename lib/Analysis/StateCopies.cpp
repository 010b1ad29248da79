//===- StateCopies.cpp - Optimizer state that lies on the host ------------===//

#include "fsdp/Analysis/StateCopies.h"

#include "fsdp/Analysis/GroupTable.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

SmallVector<StateCopy> fsdp::collectStateCopies(Block &body) {
  DenseMap<StringAttr, StateCopy> copyOf; // by group
  SmallVector<StringAttr> order;
  for (Operation &op : body)
    llvm::TypeSwitch<Operation *>(&op)
        .Case(
            [&](FetchStateStartOp fetch) { copyOf[fetch.getGroupAttr().getAttr()].fetch = fetch; })
        .Case([&](FetchStateWaitOp wait) {
          auto fetch = wait.getHandle().getDefiningOp<FetchStateStartOp>();
          copyOf[fetch.getGroupAttr().getAttr()].fetchWait = wait;
        })
        .Case([&](UpdateOp update) {
          auto found = copyOf.find(update.getTargetAttr().getAttr());
          if (found == copyOf.end())
            return;
          found->second.update = update;
          order.push_back(found->first);
        })
        .Case(
            [&](StoreStateStartOp store) { copyOf[store.getGroupAttr().getAttr()].store = store; })
        .Case([&](StoreStateWaitOp wait) {
          auto store = wait.getHandle().getDefiningOp<StoreStateStartOp>();
          copyOf[store.getGroupAttr().getAttr()].storeWait = wait;
        });
  return llvm::map_to_vector(order, [&](StringAttr group) { return copyOf.lookup(group); });
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

namespace {

class Checker {
public:
  explicit Checker(Step &step) : step(step), states(step.groups.size()) {}
  LogicalResult run();

private:
  LogicalResult visit(FetchStateStartOp fetch);
  LogicalResult visit(FetchStateWaitOp wait);
  LogicalResult visit(UpdateOp update);
  LogicalResult visit(StoreStateStartOp store);
  LogicalResult visit(StoreStateWaitOp wait);
  LogicalResult checkEnd();
  /// Diagnoses `op` of a group, with a note at `other` unless that is null.
  LogicalResult fail(Operation *op, StringRef group, StringRef message, Operation *other,
                     StringRef note) {
    InFlightDiagnostic diag = op->emitError("the optimizer state of group @") << group << message;
    if (other)
      diag.attachNote(other->getLoc()) << note;
    return diag;
  }
  unsigned indexOf(FlatSymbolRefAttr group) const {
    return step.groupByName.lookup(group.getAttr());
  }

  Step &step;
  SmallVector<StateCopy> states; // by group
};

} // namespace

LogicalResult Checker::visit(FetchStateStartOp fetch) {
  StateCopy &state = states[indexOf(fetch.getGroupAttr())];
  GroupOp group = step.groups[indexOf(fetch.getGroupAttr())];
  if (!group.isStateOnHost())
    return fail(fetch, fetch.getGroup(), " is fetched, but it is not on the host", group,
                "the group is declared here");
  if (state.fetch)
    return fail(fetch, fetch.getGroup(), " is fetched twice", state.fetch, "fetched here");
  state.fetch = fetch;
  return success();
}

LogicalResult Checker::visit(FetchStateWaitOp wait) {
  auto fetch = wait.getHandle().getDefiningOp<FetchStateStartOp>();
  StateCopy &state = states[indexOf(fetch.getGroupAttr())];
  if (state.fetchWait)
    return fail(wait, fetch.getGroup(), " is waited for twice", state.fetchWait, "waited for here");
  state.fetchWait = wait;
  return success();
}

LogicalResult Checker::visit(UpdateOp update) {
  auto found = step.groupByName.find(update.getTargetAttr().getAttr());
  if (found == step.groupByName.end() || !step.groups[found->second].isStateOnHost())
    return success();
  StateCopy &state = states[found->second];
  state.update = update;
  if (state.fetchWait)
    return success();
  return fail(update, update.getTarget(),
              " is on the host: the update comes before its fetch's wait",
              state.fetch ? state.fetch.getOperation() : step.groups[found->second],
              state.fetch ? "fetched here" : "the group is declared here");
}

LogicalResult Checker::visit(StoreStateStartOp store) {
  StateCopy &state = states[indexOf(store.getGroupAttr())];
  if (!state.update)
    return fail(store, store.getGroup(), " is stored before its update",
                state.fetch ? state.fetch.getOperation() : nullptr, "fetched here");
  if (state.store)
    return fail(store, store.getGroup(), " is stored twice", state.store, "stored here");
  state.store = store;
  return success();
}

LogicalResult Checker::visit(StoreStateWaitOp wait) {
  auto store = wait.getHandle().getDefiningOp<StoreStateStartOp>();
  StateCopy &state = states[indexOf(store.getGroupAttr())];
  if (state.storeWait)
    return fail(wait, store.getGroup(), "'s store is waited for twice", state.storeWait,
                "waited for here");
  state.storeWait = wait;
  return success();
}

LogicalResult Checker::checkEnd() {
  if (!step.optimizer || getNumOptimizerStates(step.optimizer) == 0)
    return success();
  for (auto [group, state] : llvm::zip_equal(step.groups, states)) {
    if (!group.isStateOnHost() || !state.update)
      continue;
    if (!state.store)
      return fail(state.update, group.getSymName(), " is never stored behind its update",
                  state.fetch, "fetched here");
    if (!state.storeWait)
      return fail(state.store, group.getSymName(), "'s store is never waited for", nullptr, "");
  }
  return success();
}

LogicalResult Checker::run() {
  for (Operation &op : step.getBody()) {
    LogicalResult result =
        llvm::TypeSwitch<Operation *, LogicalResult>(&op)
            .Case<FetchStateStartOp, FetchStateWaitOp, UpdateOp, StoreStateStartOp,
                  StoreStateWaitOp>([&](auto typed) { return visit(typed); })
            .Default(success());
    if (failed(result))
      return failure();
  }
  return checkEnd();
}

LogicalResult fsdp::checkStateCopies(Step &step) { return Checker(step).run(); }
