//===- Stages.cpp - Stages with interleaved microbatches ------------------===//

#include "fsdp/Analysis/Stages.h"

#include "fsdp/Config/ModuleTree.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;
using aten::Phase;
using aten::ScopeAttr;

int64_t Stages::getUnit(Phase phase, unsigned stage, int64_t microbatch) const {
  if (isEmpty())
    return microbatch;
  const int64_t n = names.size(), numForwards = n * microbatches, numFirst = n - 1;
  if (phase == Phase::Forward) {
    int64_t forward = microbatch * n + stage;
    return forward < numFirst ? forward : numFirst + 2 * (forward - numFirst);
  }
  int64_t backward = microbatch * n + (n - 1 - stage), numPairs = numForwards - numFirst;
  return backward < numPairs ? numFirst + 2 * backward + 1
                             : numFirst + 2 * numPairs + (backward - numPairs);
}

bool Stages::isRootOfStage(Step &step, GroupOp group) const {
  auto found = stageOfGroup.find(group);
  if (found == stageOfGroup.end() || group.getModules().size() != 1)
    return false;
  ModuleTree tree;
  auto getModule = [&](Attribute path) -> const Module & {
    return tree.add(cast<StringAttr>(path).getValue());
  };
  const Module &root = getModule(group.getModules()[0]);
  return llvm::all_of(step.groups, [&](GroupOp other) {
    auto stage = stageOfGroup.find(other);
    return stage == stageOfGroup.end() || stage->second != found->second ||
           llvm::all_of(other.getModules(),
                        [&](Attribute module) { return getModule(module).isIn(root); });
  });
}

namespace fsdp {
/// Walks over the calls in program order.
class StageFinder {
public:
  StageFinder(Step &step, Stages &stages) : step(step), stages(stages) {}
  LogicalResult run();

private:
  /// The state of the walk in one microbatch.
  struct Current {
    unsigned forward = 0; // the current stage
    std::optional<unsigned> backward;
    CallOp begin; // the first call of the forward's stage
  };

  LogicalResult collectModules();
  std::optional<unsigned> findNamed(StringAttr module);
  LogicalResult visitForward(CallOp call);
  LogicalResult visitBackward(CallOp call);
  LogicalResult visitGroups(CallOp call, unsigned stage);
  LogicalResult visitParams(CallOp call, unsigned stage);
  LogicalResult checkEnd();
  StringRef getName(unsigned stage) { return stages.names[stage].getValue(); }
  ScopeAttr getScope(CallOp call) {
    ScopeAttr scope = call.getScope();
    return ScopeAttr::get(call.getContext(), scope.getModule(), scope.getCalls(), /*microbatch=*/0);
  }

  static constexpr unsigned kSeveral = ~0u;
  Step &step;
  Stages &stages;
  ModuleTree tree;
  SmallVector<Current> microbatches;
  DenseMap<const Module *, unsigned> stageOfName;             // by the module that begins the stage
  DenseMap<const Module *, SmallVector<unsigned>> groupsOf;   // by a module of the group
  DenseMap<StringAttr, std::optional<unsigned>> namedOf;      // by module path
  DenseMap<StringAttr, SmallVector<unsigned>> groupsByModule; // by module path
  DenseMap<Attribute, unsigned> stageOfScope;                 // or kSeveral
  SmallVector<CallOp> firstOfGroup;                           // by group: its first call
  DenseMap<Value, StringAttr> paramOf;                        // of reads and their views
  DenseMap<StringAttr, CallOp> firstOfParam;
};
} // namespace fsdp

/// There are at least two stages, and no module begins two.
LogicalResult StageFinder::collectModules() {
  if (stages.names.size() < 2)
    return step.module.emitError("order 1f1b has ")
           << stages.names.size() << " stage, expected two or more";
  for (auto [index, name] : llvm::enumerate(stages.names))
    if (!stageOfName.try_emplace(&tree.add(name.getValue()), index).second)
      return step.module.emitError("stage '") << name.getValue() << "' is given twice";
  for (auto [index, group] : llvm::enumerate(step.groups))
    if (!group.isRoot())
      for (auto path : group.getModules().getAsRange<StringAttr>())
        groupsOf[&tree.add(path.getValue())].push_back(index);
  return success();
}

/// The stage named by the module or by its innermost parent that names one.
std::optional<unsigned> StageFinder::findNamed(StringAttr module) {
  auto [it, isNew] = namedOf.try_emplace(module);
  if (isNew)
    for (const Module *outer : getChain(tree.add(module.getValue())))
      if (auto named = stageOfName.find(outer); named != stageOfName.end())
        it->second = named->second;
  return it->second;
}

LogicalResult StageFinder::visitForward(CallOp call) {
  Current &current = microbatches[call.getMicrobatch()];
  if (std::optional<unsigned> named = findNamed(call.getModuleAttr());
      named && *named != current.forward) {
    if (*named != current.forward + 1) {
      bool isAgain = *named < current.forward;
      InFlightDiagnostic diag =
          call.emitError("module '")
          << call.getModule() << "' of stage '" << getName(*named) << "' runs "
          << (isAgain ? "again behind the begin of stage '" : "before the begin of stage '")
          << getName(isAgain ? current.forward : current.forward + 1)
          << "'; the forward of each stage of order 1f1b is one piece, and accumulation.stages "
          << "names them in the order of the forward";
      if (current.begin)
        diag.attachNote(current.begin.getLoc())
            << "stage '" << getName(current.forward) << "' begins here";
      return diag;
    }
    current.forward = *named;
    current.begin = call;
  }
  unsigned stage = current.forward;
  stages.stageOf[call] = stage;
  auto [known, isNew] = stageOfScope.try_emplace(getScope(call), stage);
  if (!isNew && known->second != stage)
    known->second = kSeveral;
  return failure(failed(visitGroups(call, stage)) || failed(visitParams(call, stage)));
}

/// The hooks of one stage gather and reduce a group.
LogicalResult StageFinder::visitGroups(CallOp call, unsigned stage) {
  auto [it, isNew] = groupsByModule.try_emplace(call.getModuleAttr());
  if (isNew)
    for (const Module *outer : getChain(tree.add(call.getModule())))
      if (auto found = groupsOf.find(outer); found != groupsOf.end())
        llvm::append_range(it->second, found->second);
  for (unsigned index : it->second) {
    CallOp &first = firstOfGroup[index];
    if (!first) {
      first = call;
      stages.stageOfGroup[step.groups[index]] = stage;
    }
    unsigned other = stages.lookup(first);
    if (other == stage)
      continue;
    InFlightDiagnostic diag = step.groups[index].emitError("group @")
                              << step.groups[index].getSymName() << " runs in two stages: module '"
                              << first.getModule() << "' in stage '" << getName(other)
                              << "' and module '" << call.getModule() << "' in stage '"
                              << getName(stage)
                              << "'; with order 1f1b a group belongs to one stage: put these "
                                 "modules into groups of their own, or begin no stage between them";
    diag.attachNote(call.getLoc()) << "the operation of module '" << call.getModule() << "'";
    return diag;
  }
  return success();
}

LogicalResult StageFinder::visitParams(CallOp call, unsigned stage) {
  for (OpOperand &operand : call->getOpOperands()) {
    StringAttr param = paramOf.lookup(operand.get());
    if (!param)
      continue;
    if (operand.getOperandNumber() == 0 && call.isView())
      for (Value result : call.getResults())
        paramOf[result] = param;
    CallOp &first = firstOfParam[param];
    if (!first)
      first = call;
    unsigned other = stages.lookup(first);
    if (other == stage)
      continue;
    InFlightDiagnostic diag =
        step.paramByName.lookup(param).emitError("parameter @")
        << param.getValue() << " is used in two stages: by module '" << first.getModule()
        << "' in stage '" << getName(other) << "' and by module '" << call.getModule()
        << "' in stage '" << getName(stage)
        << "'; with order 1f1b its gradient would be a sum over stages: begin no stage between "
           "these modules, or give each a parameter of its own";
    diag.attachNote(call.getLoc()) << "the second use";
    return diag;
  }
  return success();
}

LogicalResult StageFinder::visitBackward(CallOp call) {
  std::optional<unsigned> &current = microbatches[call.getMicrobatch()].backward;
  if (!current)
    current = stages.size() - 1;
  // Operations of the root module belong to no stage: the loss, or copies of whole gradients.
  auto known = stageOfScope.find(getScope(call));
  bool isKnown =
      !call.getModule().empty() && known != stageOfScope.end() && known->second != kSeveral;
  unsigned stage = isKnown ? known->second : *current;
  for (Value operand : call.getOperands()) {
    auto source = operand.getDefiningOp<CallOp>();
    if (!source || source.getPhase() == Phase::Forward || stages.lookup(source) >= stage)
      continue;
    if (!isKnown) {
      stage = stages.lookup(source);
      continue;
    }
    InFlightDiagnostic diag = call.emitError("the backward of module '")
                              << call.getModule() << "' in stage '" << getName(stage)
                              << "' needs a gradient from module '" << source.getModule()
                              << "' in stage '" << getName(stages.lookup(source))
                              << "', whose backward runs later with order 1f1b; begin no stage "
                                 "between these modules";
    diag.attachNote(source.getLoc()) << "the gradient is made here";
    return diag;
  }
  stages.stageOf[call] = stage;
  current = std::min(*current, stage);
  return success();
}

LogicalResult StageFinder::checkEnd() {
  unsigned last = microbatches.front().forward;
  if (last + 1 != stages.size())
    return step.module.emitError("stage '")
           << getName(last + 1) << "' has no operation in the forward; accumulation.stages names "
           << "modules that run, in the order of the forward";
  for (GroupOp group : step.groups)
    if (group.isRoot() && !group.getParams().empty())
      return group.emitError("parameter ")
             << group.getParams()[0]
             << " is in the root group, which runs in all stages; with order 1f1b each parameter "
                "belongs to the group of one stage: add its module to groups";
  return success();
}

LogicalResult StageFinder::run() {
  if (failed(collectModules()))
    return failure();
  microbatches.resize(stages.microbatches);
  firstOfGroup.resize(step.groups.size());
  for (Operation &op : step.getBody()) {
    if (auto read = dyn_cast<ReadOp>(op)) {
      if (step.paramByName.contains(read.getSourceAttr().getAttr()))
        paramOf[read.getResult()] = read.getSourceAttr().getAttr();
      continue;
    }
    auto call = dyn_cast<CallOp>(op);
    if (!call)
      continue;
    if (call.getMicrobatch() >= stages.microbatches)
      return call.emitError("is of microbatch ")
             << call.getMicrobatch() << ", but the step has " << stages.microbatches;
    if (failed(call.getPhase() == Phase::Forward ? visitForward(call) : visitBackward(call)))
      return failure();
  }
  return checkEnd();
}

FailureOr<Stages> Stages::find(Step &step) {
  Stages stages;
  if (!step.isInterleaved())
    return stages;
  AccumulationAttr accumulation = step.getAccumulation();
  llvm::append_range(stages.names, accumulation.getStages());
  stages.microbatches = accumulation.getMicrobatches();
  if (failed(StageFinder(step, stages).run()))
    return failure();
  return stages;
}
