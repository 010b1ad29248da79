//===- ShardingChecks.cpp - Checks of groups and collectives --------------===//

#include "fsdp/Analysis/ShardingChecks.h"

#include "ShardingDiagnostics.h"
#include "fsdp/Analysis/Clipping.h"
#include "fsdp/Analysis/Float8Gathers.h"
#include "fsdp/Analysis/Provenance.h"
#include "fsdp/Analysis/Requests.h"
#include "fsdp/Analysis/StateCopies.h"
#include "fsdp/Analysis/StepStorage.h"
#include "fsdp/IR/AtenSemantics.h"
#include "fsdp/IR/ModelCollectives.h"
#include "fsdp/IR/VisitByClass.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

namespace {

/// One gather and its reshard, if any.
struct Gather {
  AllGatherStartOp start;
  ReshardOp reshard;
};

/// What the step has done with a group so far.
struct GroupState {
  AllGatherStartOp gather; // null while the group is not gathered
  EncodeOp encode;
  UpdateOp update;
};

/// A gathered parameter, or a view of it.
struct FullParam {
  AllGatherStartOp gather;
  unsigned position;
};

class Checker {
public:
  explicit Checker(Step &step) : step(step), groups(step.groups.size()) {}
  LogicalResult run();

private:
  LogicalResult checkUses(Operation &op);
  LogicalResult checkWait(Operation &op);
  LogicalResult visit(EncodeOp encode);
  LogicalResult visit(AllGatherStartOp start);
  LogicalResult visit(AllGatherWaitOp wait);
  LogicalResult visit(ReshardOp reshard);
  LogicalResult visit(UpdateOp update);
  LogicalResult visit(ReadOp read);
  LogicalResult visit(StoreStartOp start);
  LogicalResult checkEnd();
  GroupState &getState(FlatSymbolRefAttr group) {
    return groups[step.groupByName.lookup(group.getAttr())];
  }

  GroupOp lookup(FlatSymbolRefAttr group) {
    return step.groups[step.groupByName.lookup(group.getAttr())];
  }

  Step &step;
  SmallVector<GroupState> groups;
  DenseMap<Value, Gather> gathers;    // by handle
  DenseMap<Value, Operation *> waits; // by handle
  SmallVector<Operation *> starts;
  DenseMap<Value, FullParam> fullParams;
};

} // namespace

/// The operation that a handle belongs to, for messages.
static std::string describeStart(Operation *start) {
  auto collective = dyn_cast<CollectiveOpInterface>(start);
  if (!collective) {
    std::string title = "the " + cast<StepOpInterface>(start).getTitle();
    auto store = dyn_cast<StoreStartOp>(start);
    auto shard = store ? dyn_cast<ShardType>(store.getValue().getType()) : ShardType();
    return shard ? title + " of group @" + shard.getGroup().getValue().str() : title;
  }
  FlatSymbolRefAttr group = collective.getCollectiveGroup();
  if (!group)
    return "the reduction of a tensor";
  std::string name = " of group @" + group.getValue().str();
  if (collective.getCollectiveKind() == "all_gather")
    return "the gather" + name;
  return "the reduction" + name +
         (collective.getCollectiveKind() == "all_reduce" ? " over the replicas" : "");
}

/// Every start has one wait.
LogicalResult Checker::checkWait(Operation &op) {
  if (getStartedHandle(op))
    starts.push_back(&op);
  Value handle = getAwaitedHandle(op);
  if (!handle)
    return success();
  auto [known, isNew] = waits.try_emplace(handle, &op);
  if (isNew)
    return success();
  return fail(&op, "S2: " + describeStart(handle.getDefiningOp()) + " is waited for twice",
              known->second, "waited for here");
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

/// A shard is encoded once, before its update. The types guarantee that gathers of encoded shards
/// take the result.
LogicalResult Checker::visit(EncodeOp encode) {
  FlatSymbolRefAttr group = encode.getSource().getType().getGroup();
  GroupState &state = getState(group);
  std::string name = "group @" + group.getValue().str();
  if (!encode.getSource().getDefiningOp<ShardOp>())
    return fail(encode,
                "S2: the tensor that is encoded for the gathers of " + name + " is not its shard",
                encode.getSource().getDefiningOp(), "made here");
  if (state.encode)
    return fail(encode, "S2: the shard of " + name + " is encoded twice", state.encode,
                "encoded here");
  if (state.update)
    return fail(encode, "S2: the shard of " + name + " is encoded after its update", state.update,
                "updated here");
  state.encode = encode;
  return success();
}

LogicalResult Checker::visit(AllGatherStartOp start) {
  GroupState &state = getState(start.getGroupAttr());
  std::string name = ("group @" + start.getGroup()).str();
  if (GroupOp group = lookup(start.getGroupAttr());
      step.getShards(group) == 1 && !group.areParametersOnHost())
    return fail(start, "S5: " + name + " is gathered, but each rank has all of it",
                step.getMesh(group), "the mesh is declared here");
  if (state.gather)
    return fail(start, "S2: " + name + " is gathered while it is gathered", state.gather,
                "gathered here");
  if (state.update)
    return fail(start, "S2: " + name + " is gathered after its update", state.update,
                "updated here");
  Operation *maker = start.getShard().getDefiningOp();
  if (auto store = dyn_cast_or_null<StoreWaitOp>(maker))
    maker = store.getStart().getValue().getDefiningOp();
  if (!isa_and_nonnull<ShardOp, ChunkOp, EncodeOp>(maker))
    return fail(start,
                "S2: " + name + " is gathered from a value that is not its shard of parameters",
                maker, "made here");
  state.gather = start;
  gathers[start.getHandle()].start = start;
  return success();
}

LogicalResult Checker::visit(AllGatherWaitOp wait) {
  Gather &gather = gathers[wait.getHandle()];
  for (OpResult result : wait.getResults())
    fullParams[result] = {gather.start, result.getResultNumber()};
  return success();
}

LogicalResult Checker::visit(ReshardOp reshard) {
  Gather &gather = gathers[reshard.getHandle()];
  std::string name = ("group @" + gather.start.getGroup()).str();
  if (gather.reshard)
    return fail(reshard, "S2: " + name + " is resharded twice", gather.reshard, "resharded here");
  if (!waits.contains(reshard.getHandle()))
    return fail(reshard, "S2: " + name + " is resharded before its gather is waited for",
                gather.start, "gathered here");
  gather.reshard = reshard;
  getState(gather.start.getGroupAttr()).gather = {};
  return success();
}

/// S3, and the origin of views.
LogicalResult Checker::checkUses(Operation &op) {
  auto call = dyn_cast<CallOp>(op);
  for (OpOperand &operand : op.getOpOperands()) {
    auto it = fullParams.find(operand.get());
    if (it == fullParams.end())
      continue;
    FullParam param = it->second;
    const Gather &gather = gathers[param.gather.getHandle()];
    if (ReshardOp reshard = gather.reshard) {
      GroupOp group = step.groups[step.groupByName.lookup(param.gather.getGroupAttr().getAttr())];
      InFlightDiagnostic diag = op.emitError("S3: parameter ")
                                << group.getParams()[param.position] << " of group @"
                                << group.getSymName() << " is used after its reshard";
      if (call)
        diag << ", in module '" << call.getModule() << "'";
      diag.attachNote(reshard.getLoc()) << "resharded here";
      diag.attachNote(param.gather.getLoc()) << "gathered here";
      return diag;
    }
    if (call && operand.getOperandNumber() == 0 && call.isView())
      for (Value result : call.getResults())
        fullParams[result] = param;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Updates, reads and the end
//===----------------------------------------------------------------------===//

/// ReductionChecks.cpp checks all else about updates, also that they update groups.
LogicalResult Checker::visit(UpdateOp update) {
  if (!step.groupByName.contains(update.getTargetAttr().getAttr()))
    return success();
  GroupState &state = getState(update.getTargetAttr());
  if (state.gather)
    return fail(update, "S2: group @" + update.getTarget() + " is updated while it is gathered",
                state.gather, "gathered here");
  state.update = update;
  return success();
}

LogicalResult Checker::visit(ReadOp read) {
  ParamOp param = step.paramByName.lookup(read.getSourceAttr().getAttr());
  if (!param)
    return success();
  GroupMember member = step.memberByParam.lookup(param.getSymNameAttr());
  GroupOp group = step.groups[member.group];
  if (group.areParametersOnHost())
    return fail(read,
                "S5: parameter @" + read.getSource() +
                    " is read; it lies on the host and must be gathered",
                group, "the group is declared here");
  if (step.getShards(group) == 1)
    return checkOwnDtype(read, read.getResult(), param);
  return fail(read,
              "S5: parameter @" + read.getSource() + " is read; it is sharded over " +
                  Twine(step.getShards(group)) + " ranks and must be gathered",
              step.getMesh(group), "the mesh is declared here");
}

/// No other operation writes the stored value: the copy reads it until its wait.
LogicalResult Checker::visit(StoreStartOp start) {
  Value stored = start.getValue();
  Operation *maker = stored.getDefiningOp();
  auto call = dyn_cast_or_null<CallOp>(maker);
  const bool isMade =
      isa_and_nonnull<LaunchOp>(maker) || (call && !(call.isView() && !call.getOperands().empty()));
  if (isMade || isa<ShardType>(stored.getType()))
    return success();
  return fail(start, "S2: a value that is stored on the host is not the result of an operator",
              maker, "made here");
}

/// What takes a value from the host: a gather takes a chunk, a fetch anything else.
static std::string describeTaken(StoreStartOp store) {
  return store.getValue().getDefiningOp<ChunkOp>() ? "gathered" : "fetched";
}

/// A group that is still gathered was not updated: updates require the reshard.
LogicalResult Checker::checkEnd() {
  for (Operation *start : starts)
    if (!waits.contains(getStartedHandle(*start)))
      return fail(start, "S2: " + describeStart(start) + " is never waited for", nullptr, "");
  for (auto wait : step.getBody().getOps<StoreWaitOp>())
    if (!wait.getStored().hasOneUse())
      return fail(wait,
                  "S2: what " + describeStart(wait.getStart()) + " brings to the host is " +
                      (wait.getStored().use_empty() ? "never " + describeTaken(wait.getStart())
                                                    : describeTaken(wait.getStart()) + " twice"),
                  wait.getStart(), "stored here");
  return success();
}

LogicalResult Checker::run() {
  const int64_t ranks = step.getWorldSize();
  for (Operation &op : step.getBody()) {
    auto call = dyn_cast<CallOp>(op);
    if (failed(checkUses(op)) || failed(checkWait(op)) ||
        (call &&
         (failed(checkFunctional(call, "S9")) || failed(checkAssumedRanks(call, ranks, "S9")))))
      return failure();
    LogicalResult result = success();
    visitByClass(
        &op, [&](auto known)
          requires requires { visit(known); }
        { result = visit(known); });
    if (failed(result))
      return failure();
  }
  return checkEnd();
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

LogicalResult fsdp::checkGroups(Step &step, StringRef label) {
  if (step.meshes.empty())
    return step.module.emitError(label)
           << ": the module has no mesh; run fsdp-group-parameters first";
  // Step::collect has diagnosed meshes of different ranks and parameters in two groups.
  for (ParamOp param : step.params)
    if (!step.memberByParam.contains(param.getSymNameAttr()))
      return param.emitError(label) << ": parameter @" << param.getSymName() << " is in no group";
  return success();
}

/// Batch normalisation in training mode writes to its statistics, though its schema does not say
/// so.
static bool writesStatistics(CallOp call) {
  static constexpr llvm::StringLiteral kNames[] = {"native_batch_norm",      "batch_norm",
                                                   "_batch_norm_impl_index", "cudnn_batch_norm",
                                                   "miopen_batch_norm",      "instance_norm"};
  constexpr unsigned kMean = 3, kVariance = 4, kTraining = 5;
  ArrayAttr arguments = call.getArgs();
  if (!llvm::is_contained(kNames, call.getBaseName()) || arguments.size() <= kTraining)
    return false;
  auto training = dyn_cast<BoolAttr>(arguments[kTraining]);
  return training && training.getValue() &&
         (isa<aten::OperandAttr>(arguments[kMean]) || isa<aten::OperandAttr>(arguments[kVariance]));
}

LogicalResult fsdp::checkFunctional(CallOp call, StringRef label) {
  if (!aten::isMutable(call.getCallee()) && !writesStatistics(call))
    return success();
  return call.emitError(label) << ": '" << call.getCallee() << "' in module '" << call.getModule()
                               << "' mutates an argument; a step is functional";
}

/// The inputs of the step are fsdp.input and fsdp.shard.
static LogicalResult checkNoArguments(Step &step) {
  if (step.function.getNumArguments() == 0)
    return success();
  return step.function.emitError("S1: the step has ")
         << step.function.getNumArguments() << " arguments; inputs are 'fsdp.input'";
}

/// Groups meet the user's requests or have a reason.
static LogicalResult checkRequests(Step &step) {
  for (GroupOp group : step.groups)
    if (std::optional<std::string> open = explainOpen(step, group))
      return group.emitError("S1: group @") << group.getSymName() << ' ' << *open;
  return success();
}

/// The module's attribute matches the number of microbatches in the step.
static LogicalResult checkMicrobatches(Step &step) {
  int64_t last = 0;
  for (auto call : step.getBody().getOps<CallOp>())
    last = std::max(last, call.getMicrobatch());
  for (auto launch : step.getBody().getOps<LaunchOp>())
    last = std::max(last, launch.getScope().getMicrobatch());
  if (step.getMicrobatches() == last + 1)
    return success();
  return step.module.emitError("S1: the step has ")
         << last + 1 << " microbatches, but '" << FsdpDialect::getAccumulationAttrName()
         << "' says " << step.getMicrobatches();
}

/// Every microbatch has a batch of its own, of the same inputs in the same order.
static LogicalResult checkInputs(Step &step) {
  SmallVector<SmallVector<InputOp>> batches(step.getMicrobatches());
  for (auto input : step.getBody().getOps<InputOp>()) {
    if (!isa<RankedTensorType>(input.getType()))
      continue; // step and lr
    const int64_t microbatch = input.getMicrobatch();
    if (microbatch < 0 || microbatch >= step.getMicrobatches())
      return fail(input,
                  "S1: input \"" + input.getName() + "\" is of microbatch " + Twine(microbatch) +
                      ", but the step has " + Twine(step.getMicrobatches()),
                  nullptr, "");
    batches[microbatch].push_back(input);
  }
  for (auto [microbatch, batch] : llvm::enumerate(batches)) {
    if (batch.size() != batches.front().size())
      return step.module.emitError("S1: microbatch ")
             << microbatch << " has " << batch.size() << " inputs, microbatch 0 has "
             << batches.front().size();
    for (auto [input, first] : llvm::zip_equal(batch, batches.front()))
      if (input.getName() != first.getName() || input.getType() != first.getType())
        return fail(input,
                    "S1: microbatch " + Twine(microbatch) + " has input \"" + input.getName() +
                        "\" where microbatch 0 has \"" + first.getName() +
                        "\"; all have the same inputs in the same order",
                    first, "that of microbatch 0 is here");
  }
  return success();
}

LogicalResult fsdp::checkSharded(Step &step) {
  if (failed(checkNoArguments(step)) || failed(checkMicrobatches(step)) ||
      failed(checkInputs(step)) || failed(checkGroups(step, "S1")) || failed(checkRequests(step)) ||
      failed(Checker(step).run()) || failed(checkFloat8Gathers(step)) ||
      failed(checkReductions(step)) || failed(checkClipping(step)))
    return failure();
  if (failed(checkStateCopies(step)))
    return failure();
  return checkProvenance(step);
}
