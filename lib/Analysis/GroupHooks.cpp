//===- GroupHooks.cpp - Where FSDP2's hooks of each group would run -------===//

#include "fsdp/Analysis/GroupHooks.h"

#include "fsdp/Analysis/Stages.h"
#include "fsdp/Config/ModuleTree.h"
#include "fsdp/IR/AtenSemantics.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <tuple>

using namespace mlir;
using namespace fsdp;
using aten::CallOp;
using aten::Phase;

namespace {

/// Which call of a module of a group.
struct ModuleCall {
  unsigned slot;
  int64_t call;
  bool operator==(const ModuleCall &other) const = default;
};

/// Operations first, ..., last of the step, all of one phase and one call of a module.
struct Run {
  ModuleCall module;
  int first, last;
  /// Some tensor that comes from before the run needs a gradient.
  bool inputNeedsGrad = false;
};

/// One forward of a group's modules.
struct ForwardCall {
  int first, last;
  bool inputNeedsGrad;
  SmallVector<ModuleCall> modules;
  /// All modules have run; else it has neither post-forward nor pre-backward.
  bool isComplete = false;
};

/// The backward of a forward call, or of several that cannot be told apart.
struct BackwardSpan {
  int first, last;
  int lastForward;     // where the forward ended
  bool inputNeedsGrad; // of the first of the calls
  bool isComplete;     // the forward of one of them
};

/// One module of one group.
struct Slot {
  unsigned group, depth;
};

struct GroupRuns {
  SmallVector<Run> forward, backward; // in the order of their first operation
};

/// What the walk over the step finds in one microbatch. Microbatches may be interleaved.
struct Microbatch {
  int64_t number = 0;
  SmallVector<GroupRuns> runs; // by group
  /// Per group: the last call that makes one of its gradients or uses one of its parameters.
  SmallVector<int> lastNeeded;
  SmallVector<int> lastForwardRun, lastBackwardRun; // per slot: index in the group's runs
  int previousForward = -1, previousBackward = -1, last = -1;
  SmallVector<unsigned> deferred; // groups whose post-backward runs at the end
};

/// A hook and its place among hooks at the same position, smaller first: the number of its unit
/// stands first.
struct PlacedHook {
  Hook hook;
  std::tuple<int, int64_t, int64_t, size_t> rank;
};

class HookFinder {
public:
  HookFinder(Step &step, const Stages &stages) : step(step), stages(stages) {}
  FailureOr<SmallVector<Hook>> find();

private:
  void collectSlots();
  Microbatch &enterMicrobatch(int64_t number);
  void collectCalls();
  void scanCall(int index);
  void noteParams(int index);
  void noteGradientFlow(int index, ArrayRef<unsigned> found);
  ArrayRef<unsigned> getSlots(StringAttr module);
  void extendRun(ModuleCall module, int index, int previous, Phase phase);
  bool isCallOnce(ModuleCall module);
  SmallVector<ForwardCall> getForwardCalls(unsigned group);
  SmallVector<BackwardSpan> getBackwardSpans(unsigned group, ArrayRef<ForwardCall> forward);
  LogicalResult placeMicrobatch();
  void place(HookKind kind, unsigned group, int position, int64_t unit, int order, int64_t first,
             int64_t second);
  LogicalResult placeHooks(unsigned group);
  void placeFinalHooks();
  int64_t getDepth(unsigned group);
  int64_t getUnit(int index) { return stages.getUnit(calls[index]); }

  Step &step;
  const Stages &stages;
  SmallVector<Slot> slots;
  ModuleTree tree;
  DenseMap<const Module *, SmallVector<unsigned>> slotsOf;
  DenseMap<StringAttr, SmallVector<unsigned>> slotsByModule; // with all enclosing modules
  SmallVector<CallOp> calls;
  std::deque<Microbatch> microbatches;
  Microbatch *current = nullptr;        // that is walked over, or whose hooks are placed
  DenseMap<int64_t, int> endOfUnit;     // by number: behind its last call
  DenseMap<Value, unsigned> paramGroup; // of full parameters and their views
  /// Position of the call that made a value which needs a gradient; -1 for a parameter.
  DenseMap<Value, int> needsGrad;
  SmallVector<PlacedHook> placed;
};

} // namespace

//===----------------------------------------------------------------------===//
// Collect
//===----------------------------------------------------------------------===//

void HookFinder::collectSlots() {
  for (auto [index, group] : llvm::enumerate(step.groups))
    for (auto path : group.getModules().getAsRange<StringAttr>()) {
      const Module &module = tree.add(path.getValue());
      slotsOf[&module].push_back(slots.size());
      slots.push_back({static_cast<unsigned>(index), module.depth});
    }
}

Microbatch &HookFinder::enterMicrobatch(int64_t number) {
  while (static_cast<int64_t>(microbatches.size()) <= number) {
    Microbatch &added = microbatches.emplace_back();
    added.number = microbatches.size() - 1;
    added.runs.resize(step.groups.size());
    added.lastNeeded.assign(step.groups.size(), -1);
    added.lastForwardRun.assign(slots.size(), -1);
    added.lastBackwardRun.assign(slots.size(), -1);
  }
  return microbatches[number];
}

/// The modules of groups that `module` is or lies in, outermost first.
ArrayRef<unsigned> HookFinder::getSlots(StringAttr module) {
  auto [it, isNew] = slotsByModule.try_emplace(module);
  if (!isNew)
    return it->second;
  for (const Module *outer : getChain(tree.add(module.getValue())))
    if (auto known = slotsOf.find(outer); known != slotsOf.end())
      llvm::append_range(it->second, known->second);
  return it->second;
}

/// True if the forward has one run of this call. Captures number calls; only the rounds of a
/// scripted loop have one number, and hand-written text.
bool HookFinder::isCallOnce(ModuleCall module) {
  return llvm::count_if(current->runs[slots[module.slot].group].forward,
                        [&](const Run &run) { return run.module == module; }) == 1;
}

void HookFinder::extendRun(ModuleCall module, int index, int previous, Phase phase) {
  bool isForward = phase == Phase::Forward;
  GroupRuns &runs = current->runs[slots[module.slot].group];
  SmallVector<Run> &list = isForward ? runs.forward : runs.backward;
  int &newest = (isForward ? current->lastForwardRun : current->lastBackwardRun)[module.slot];
  if (newest >= 0 && list[newest].module == module && list[newest].last == previous) {
    list[newest].last = index;
    return;
  }
  // The backward of one call may be interrupted by others'.
  if (!isForward && isCallOnce(module))
    for (auto [number, run] : llvm::enumerate(list))
      if (run.module == module) {
        run.last = index;
        newest = number;
        return;
      }
  newest = list.size();
  list.push_back({module, index, index});
}

void HookFinder::scanCall(int index) {
  CallOp call = calls[index];
  Phase phase = call.getPhase();
  bool isForward = phase == Phase::Forward;
  int &previous = isForward ? current->previousForward : current->previousBackward;
  // The seed of the backward is made before any hook runs.
  bool isSeed = !isForward && previous < 0 && call.getBaseName() == "ones_like";
  ArrayRef<unsigned> found = getSlots(call.getModuleAttr());
  if (!isSeed)
    for (unsigned slot : found)
      extendRun({slot, call.getScope().getCall(slots[slot].depth)}, index, previous, phase);
  previous = current->last = index;
  endOfUnit[getUnit(index)] = index + 1;
  noteParams(index);
  if (isForward)
    noteGradientFlow(index, found);
}

void HookFinder::noteParams(int index) {
  CallOp call = calls[index];
  for (OpOperand &operand : call->getOpOperands()) {
    auto it = paramGroup.find(operand.get());
    if (it == paramGroup.end())
      continue;
    unsigned group = it->second;
    current->lastNeeded[group] = index;
    if (operand.getOperandNumber() == 0 && call.isView())
      for (Value result : call.getResults())
        paramGroup[result] = group;
  }
}

void HookFinder::noteGradientFlow(int index, ArrayRef<unsigned> found) {
  CallOp call = calls[index];

  bool needs = false;
  for (Value operand : call.getOperands()) {
    auto it = needsGrad.find(operand);
    if (it == needsGrad.end())
      continue;
    // A buffer that another microbatch wrote brings no gradient along.
    if (it->second >= 0 && calls[it->second].getMicrobatch() != call.getMicrobatch())
      continue;
    needs = true;
    if (it->second < 0)
      continue;
    for (unsigned slot : found) {
      Run &run = current->runs[slots[slot].group].forward[current->lastForwardRun[slot]];
      run.inputNeedsGrad |= it->second < run.first;
    }
  }
  if (!needs || aten::lookupSemantics(call.getBaseName()).cutsGradient)
    return;
  for (Value result : call.getResults())
    if (auto type = dyn_cast<RankedTensorType>(result.getType());
        type && isa<FloatType, ComplexType>(type.getElementType()))
      needsGrad[result] = index;
}

void HookFinder::collectCalls() {
  DenseMap<Operation *, int> positions;
  auto noteGradient = [&](unsigned group, Value gradient) {
    auto it = positions.find(gradient.getDefiningOp());
    if (it == positions.end())
      return;
    int &last = enterMicrobatch(calls[it->second].getMicrobatch()).lastNeeded[group];
    last = std::max(last, it->second);
  };
  auto noteParam = [&](Value param, unsigned group, ParamOp op) {
    if (!op.getFrozen())
      needsGrad[param] = -1;
    paramGroup[param] = group;
  };
  for (Operation &op : step.getBody()) {
    if (auto call = dyn_cast<CallOp>(op)) {
      current = &enterMicrobatch(call.getMicrobatch());
      positions[call] = calls.size();
      calls.push_back(call);
      scanCall(calls.size() - 1);
    } else if (auto read = dyn_cast<ReadOp>(op)) {
      auto it = step.memberByParam.find(read.getSourceAttr().getAttr());
      if (it != step.memberByParam.end())
        noteParam(read.getResult(), it->second.group,
                  step.paramByName.lookup(read.getSourceAttr().getAttr()));
    } else if (auto wait = dyn_cast<AllGatherWaitOp>(op)) {
      unsigned group = step.groupByName.lookup(wait.getStart().getGroupAttr().getAttr());
      for (auto [result, param] :
           llvm::zip_equal(wait.getResults(), step.getParams(step.groups[group])))
        noteParam(result, group, param);
    } else if (auto grad = dyn_cast<GradOp>(op)) {
      auto it = step.memberByParam.find(grad.getParamAttr().getAttr());
      if (it != step.memberByParam.end())
        noteGradient(it->second.group, grad.getValue());
    } else if (auto uses = dyn_cast<BufferUseOpInterface>(op)) {
      // Reductions, or fsdp.pack: both say their group.
      auto name = op.getAttrOfType<FlatSymbolRefAttr>("group");
      for (Value gradient : uses.getPacked())
        noteGradient(step.groupByName.lookup(name.getAttr()), gradient);
    }
  }
}

//===----------------------------------------------------------------------===//
// From runs of modules to calls of groups
//===----------------------------------------------------------------------===//

/// FSDP2's rule for several modules: the first that runs begins a call, which ends when all have
/// run. Modules without operations count as run.
SmallVector<ForwardCall> HookFinder::getForwardCalls(unsigned group) {
  SmallVector<ForwardCall> found;
  ArrayRef<Run> list = current->runs[group].forward;
  SmallVector<unsigned> modules;
  for (const Run &run : list)
    if (!llvm::is_contained(modules, run.module.slot))
      modules.push_back(run.module.slot);
  SmallVector<unsigned> toRun;
  for (const Run &run : list) {
    if (toRun.empty()) {
      found.push_back({run.first, run.last, run.inputNeedsGrad, {}});
      toRun = modules;
    }
    found.back().last = std::max(found.back().last, run.last);
    found.back().modules.push_back(run.module);
    llvm::erase(toRun, run.module.slot);
    found.back().isComplete = toRun.empty();
  }
  return found;
}

/// The backwards of the calls in the order in which they run, those that overlap as one.
SmallVector<BackwardSpan> HookFinder::getBackwardSpans(unsigned group,
                                                       ArrayRef<ForwardCall> forward) {
  ArrayRef<Run> list = current->runs[group].backward;
  if (list.empty())
    return {};
  SmallVector<BackwardSpan> spans;
  auto add = [&](const Run &run, const ForwardCall &call) {
    spans.push_back({run.first, run.last, call.last, call.inputNeedsGrad, call.isComplete});
  };
  bool isNumbered = llvm::all_of(current->runs[group].forward,
                                 [&](const Run &run) { return isCallOnce(run.module); });
  bool isOneModule = step.groups[group].getModules().size() == 1;
  if (isNumbered) {
    for (const Run &run : list)
      for (const ForwardCall &call : forward)
        if (llvm::is_contained(call.modules, run.module))
          add(run, call);
  } else if (isOneModule && list.size() == forward.size()) {
    for (auto [run, call] : llvm::zip_equal(list, llvm::reverse(forward)))
      add(run, call);
  } else {
    for (const Run &run : list)
      add({run.module, list.front().first, run.last}, forward.front());
    spans.front().lastForward = forward.back().last;
  }
  llvm::stable_sort(spans,
                    [](const BackwardSpan &a, const BackwardSpan &b) { return a.first < b.first; });
  // Modules of one call run as one span, too.
  SmallVector<BackwardSpan> merged;
  for (const BackwardSpan &span : spans) {
    bool isSameCall = !merged.empty() && isNumbered && !isOneModule &&
                      merged.back().lastForward == span.lastForward;
    if (merged.empty() || (!isSameCall && merged.back().last < span.first)) {
      merged.push_back(span);
      continue;
    }
    BackwardSpan &last = merged.back();
    last.last = std::max(last.last, span.last);
    // The inputs of the first call are the last to have gradients.
    if (span.lastForward < last.lastForward)
      last.inputNeedsGrad = span.inputNeedsGrad;
    last.lastForward = std::max(last.lastForward, span.lastForward);
    last.isComplete |= span.isComplete;
  }
  return merged;
}

//===----------------------------------------------------------------------===//
// Hooks
//===----------------------------------------------------------------------===//

/// Components of the path of the group's first module; 0 for the root.
int64_t HookFinder::getDepth(unsigned group) {
  ArrayAttr modules = step.groups[group].getModules();
  return modules.empty() ? 0 : tree.add(cast<StringAttr>(modules[0]).getValue()).depth;
}

void HookFinder::place(HookKind kind, unsigned group, int position, int64_t unit, int order,
                       int64_t first, int64_t second) {
  Hook hook{kind, group, /*before=*/{}, static_cast<unsigned>(position)};
  hook.microbatch = current->number;
  hook.unit = unit;
  placed.push_back({hook, {order, first, second, placed.size()}});
}

/// At one position what ends comes first, inner modules before outer ones; then what begins, outer
/// modules before inner ones. Pre-backward hooks sit on the outputs: of two modules that return the
/// same tensor, the inner one's was set first and runs first.
LogicalResult HookFinder::placeHooks(unsigned group) {
  GroupOp op = step.groups[group];
  SmallVector<ForwardCall> forward = getForwardCalls(group);
  if (forward.empty()) {
    // What only unused modules hold is never gathered.
    if (step.isEvaluation() || step.getTrained(op).empty())
      return success();
    return op.emitError("no operation of the forward comes from the modules ")
           << op.getModules() << " of group @" << op.getSymName()
           << ", whose parameters would never be gathered";
  }
  int64_t depth = getDepth(group);
  constexpr int ends = 0, begins = 1;
  for (const ForwardCall &call : forward) {
    place(HookKind::PreForward, group, call.first, getUnit(call.first), begins, depth, 0);
    if (call.isComplete)
      place(HookKind::PostForward, group, call.last + 1, getUnit(call.last), ends, -depth, 0);
  }
  SmallVector<BackwardSpan> backward = getBackwardSpans(group, forward);
  for (auto [index, span] : llvm::enumerate(backward)) {
    if (span.isComplete)
      place(HookKind::PreBackward, group, span.first, getUnit(span.first), begins,
            -span.lastForward, -depth);
    bool isLast = index + 1 == backward.size();
    if (span.inputNeedsGrad) {
      int last = isLast ? std::max(span.last, current->lastNeeded[group]) : span.last;
      place(HookKind::PostBackward, group, last + 1, getUnit(last), ends, -depth, 0);
      placed.back().hook.isLast = isLast;
    } else if (isLast) {
      current->deferred.push_back(group);
    }
  }
  if (backward.empty())
    current->deferred.push_back(group);
  return success();
}

/// Post-backwards of the final callback: the root's, then in the order of the model's modules, for
/// which the order of the parameters stands.
void HookFinder::placeFinalHooks() {
  DenseMap<unsigned, int64_t> firstParam;
  for (auto [index, param] : llvm::enumerate(step.params)) {
    auto path = StringAttr::get(param.getContext(), param.getSymName());
    for (unsigned slot : getSlots(path))
      firstParam.try_emplace(slots[slot].group, index);
  }
  constexpr int atTheEnd = 2;
  for (unsigned group : current->deferred) {
    int64_t order = getDepth(group) == 0 ? -1 : firstParam.lookup(group);
    // FSDP2 calls back at the end of each backward: of a microbatch, or of one stage of it.
    CallOp forward = calls[current->runs[group].forward.front().first];
    int64_t unit = stages.getUnit(Phase::Backward, stages.lookup(forward), current->number);
    auto end = endOfUnit.find(unit);
    place(HookKind::PostBackward, group, end == endOfUnit.end() ? current->last + 1 : end->second,
          unit, atTheEnd, order, getDepth(group));
    placed.back().hook.isLast = true;
  }
}

LogicalResult HookFinder::placeMicrobatch() {
  for (unsigned group = 0; group < step.groups.size(); ++group)
    if (failed(placeHooks(group)))
      return failure();
  placeFinalHooks();
  return success();
}

FailureOr<SmallVector<Hook>> HookFinder::find() {
  collectSlots();
  enterMicrobatch(0);
  collectCalls();
  for (Microbatch &microbatch : microbatches) {
    current = &microbatch;
    if (failed(placeMicrobatch()))
      return failure();
  }
  llvm::sort(placed, [](const PlacedHook &a, const PlacedHook &b) {
    return std::tie(a.hook.position, a.hook.unit, a.rank) <
           std::tie(b.hook.position, b.hook.unit, b.rank);
  });
  for (PlacedHook &entry : placed)
    if (entry.hook.position < calls.size())
      entry.hook.before = calls[entry.hook.position];
  return llvm::map_to_vector(placed, [](const PlacedHook &entry) { return entry.hook; });
}

FailureOr<SmallVector<Hook>> fsdp::findHooks(Step &step) {
  FailureOr<Stages> stages = Stages::find(step);
  if (failed(stages))
    return failure();
  return HookFinder(step, *stages).find();
}
