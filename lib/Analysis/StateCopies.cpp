//===- StateCopies.cpp - Host copies of optimizer state -------------------===//

#include "fsdp/Analysis/StateCopies.h"
#include "fsdp/IR/OptimizerOptions.h"

#include "fsdp/Analysis/GroupTable.h"

using namespace mlir;
using namespace fsdp;

static StoreStateStartOp findStore(Value state) {
  for (Operation *user : state.getUsers())
    if (auto store = dyn_cast<StoreStateStartOp>(user))
      return store;
  return {};
}

SmallVector<StateCopy> fsdp::collectStateCopies(Block &body) {
  SmallVector<StateCopy> copies;
  for (auto update : body.getOps<UpdateOp>()) {
    if (!update.getState())
      continue;
    auto wait = update.getState().getDefiningOp<FetchStateWaitOp>();
    StoreStateStartOp store = findStore(update.getState());
    StoreStateWaitOp storeWait = store ? store.getWait() : StoreStateWaitOp();
    if (wait && storeWait)
      copies.push_back({update, wait.getStart(), wait, store, storeWait});
  }
  return copies;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

namespace {

class Checker {
public:
  explicit Checker(Step &step) : step(step) {}
  LogicalResult run();

private:
  LogicalResult visit(FetchStateStartOp fetch);
  LogicalResult visit(UpdateOp update);
  LogicalResult visit(StoreStateStartOp store);
  LogicalResult checkStored();
  /// Diagnoses `op` of a group, with a note at `other` unless `other` is null.
  LogicalResult fail(Operation *op, StringRef group, StringRef message, Operation *other,
                     StringRef note) {
    InFlightDiagnostic diag = op->emitError("S6: the optimizer state of group @")
                              << group << message;
    if (other)
      diag.attachNote(other->getLoc()) << note;
    return diag;
  }
  GroupOp lookup(FlatSymbolRefAttr group) {
    return step.groups[step.groupByName.lookup(group.getAttr())];
  }

  Step &step;
  bool hasState = false;                          // the optimizer has states
  DenseMap<Attribute, FetchStateStartOp> fetches; // by group
  DenseMap<Value, UpdateOp> updates;              // by state
  DenseMap<Value, StoreStateStartOp> stores;      // by state
};

} // namespace

LogicalResult Checker::visit(FetchStateStartOp fetch) {
  GroupOp group = lookup(fetch.getGroupAttr());
  if (!group.isUpdatedFromHost())
    return fail(fetch, fetch.getGroup(), " is fetched, but it is not on the host", group,
                "the group is declared here");
  auto [known, isNew] = fetches.try_emplace(fetch.getGroupAttr(), fetch);
  if (isNew)
    return success();
  return fail(fetch, fetch.getGroup(), " is fetched twice", known->second, "fetched here");
}

LogicalResult Checker::visit(UpdateOp update) {
  auto found = step.groupByName.find(update.getTargetAttr().getAttr());
  if (found == step.groupByName.end() || !step.groups[found->second].isUpdatedFromHost())
    return success();
  GroupOp group = step.groups[found->second];
  if (!update.getState() && (hasState || group.areParametersOnHost()))
    return fail(update, update.getTarget(), " is on the host, but the update does not take it",
                group, "the group is declared here");
  if (update.getState())
    updates[update.getState()] = update;
  return success();
}

LogicalResult Checker::visit(StoreStateStartOp store) {
  if (!updates.contains(store.getState()))
    return fail(store, store.getGroup(), " is stored before its update",
                store.getState().getDefiningOp(), "fetched here");
  auto [known, isNew] = stores.try_emplace(store.getState(), store);
  if (isNew)
    return success();
  return fail(store, store.getGroup(), " is stored twice", known->second, "stored here");
}

/// S2 checks that every start has a wait.
LogicalResult Checker::checkStored() {
  for (auto update : step.getBody().getOps<UpdateOp>())
    if (update.getState() && !stores.contains(update.getState()))
      return fail(update, update.getTarget(), " is never stored behind its update",
                  update.getState().getDefiningOp(), "fetched here");
  return success();
}

LogicalResult Checker::run() {
  hasState = step.optimizer && !getStateNames(step.optimizer).empty();
  for (Operation &op : step.getBody()) {
    LogicalResult result = success();
    if (auto fetch = dyn_cast<FetchStateStartOp>(op))
      result = visit(fetch);
    else if (auto update = dyn_cast<UpdateOp>(op))
      result = visit(update);
    else if (auto store = dyn_cast<StoreStateStartOp>(op))
      result = visit(store);
    if (failed(result))
      return failure();
  }
  return checkStored();
}

LogicalResult fsdp::checkStateCopies(Step &step) { return Checker(step).run(); }
