//===- GroupHooks.cpp - Where FSDP2's hooks of each group would run -------===//

#include "fsdp/Analysis/GroupHooks.h"

#include "fsdp/IR/AtenSemantics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <limits>
#include <tuple>

using namespace mlir;
using namespace fsdp;
using aten::CallOp;
using aten::Phase;

namespace {

/// Calls first, ..., last of the step, all of one phase and one module.
struct Run {
  unsigned slot;
  int first, last;
  /// Some tensor that comes from before the run needs a gradient.
  bool inputNeedsGrad = false;
};

/// One forward of a group's modules.
struct ForwardCall {
  int first, last;
  bool inputNeedsGrad;
};

struct Span {
  int first = -1, last = -1;
};

/// One module of one group.
struct Slot {
  unsigned group;
  int lastForwardRun = -1, lastBackwardRun = -1; // index in the group's runs
};

struct GroupRuns {
  SmallVector<Run> forward, backward; // in the order of their first operation
};

/// A hook and its place among hooks at the same position, smaller first.
struct PlacedHook {
  Hook hook;
  std::tuple<int, int64_t, int64_t, size_t> rank;
};

class HookFinder {
public:
  explicit HookFinder(Step &step) : step(step) {}
  FailureOr<SmallVector<Hook>> find();

private:
  void collectSlots();
  void collectCalls();
  void scanCall(int index);
  void noteParams(int index);
  void noteGradientFlow(int index, ArrayRef<unsigned> found);
  ArrayRef<unsigned> getSlots(StringAttr module);
  void extendRun(unsigned slot, int index, int previous, Phase phase);
  SmallVector<ForwardCall> getForwardCalls(unsigned group);
  SmallVector<Span> getBackwardSpans(unsigned group, size_t numCalls);
  void place(HookKind kind, unsigned group, int position, int order, int64_t first, int64_t second);
  LogicalResult placeHooks(unsigned group);
  void placeFinalHooks();
  int64_t getDepth(unsigned group);

  Step &step;
  SmallVector<Slot> slots;
  llvm::StringMap<SmallVector<unsigned>> slotsByPath;
  DenseMap<StringAttr, SmallVector<unsigned>> slotsByModule; // with all enclosing modules
  SmallVector<CallOp> calls;
  SmallVector<GroupRuns> runs;
  /// Per group: the last call that makes one of its gradients or uses one of its parameters.
  SmallVector<int> lastNeeded;
  DenseMap<Value, unsigned> paramGroup; // of full parameters and their views
  /// Position of the call that made a value which needs a gradient; -1 for a parameter.
  DenseMap<Value, int> needsGrad;
  int previousForward = -1, previousBackward = -1;
  SmallVector<PlacedHook> placed;
  SmallVector<unsigned> deferred; // groups whose post-backward runs at the end
};

} // namespace

//===----------------------------------------------------------------------===//
// Collect
//===----------------------------------------------------------------------===//

void HookFinder::collectSlots() {
  for (auto [index, group] : llvm::enumerate(step.groups))
    for (auto module : group.getModules().getAsRange<StringAttr>()) {
      slotsByPath[module.getValue()].push_back(slots.size());
      slots.push_back({static_cast<unsigned>(index)});
    }
  runs.resize(step.groups.size());
  lastNeeded.assign(step.groups.size(), -1);
}

/// The modules of groups that `module` is or lies in, outermost first.
ArrayRef<unsigned> HookFinder::getSlots(StringAttr module) {
  auto [it, isNew] = slotsByModule.try_emplace(module);
  if (!isNew)
    return it->second;
  SmallVector<unsigned> &found = it->second;
  auto append = [&](StringRef path) {
    auto known = slotsByPath.find(path);
    if (known != slotsByPath.end())
      llvm::append_range(found, known->second);
  };
  append("");
  StringRef path = module.getValue();
  for (size_t dot = path.find('.'); dot != StringRef::npos; dot = path.find('.', dot + 1))
    append(path.take_front(dot));
  if (!path.empty())
    append(path);
  return found;
}

void HookFinder::extendRun(unsigned slotIndex, int index, int previous, Phase phase) {
  Slot &slot = slots[slotIndex];
  bool isForward = phase == Phase::Forward;
  SmallVector<Run> &list = isForward ? runs[slot.group].forward : runs[slot.group].backward;
  int &current = isForward ? slot.lastForwardRun : slot.lastBackwardRun;
  if (current >= 0 && list[current].last == previous) {
    list[current].last = index;
    return;
  }
  current = list.size();
  list.push_back({slotIndex, index, index});
}

void HookFinder::scanCall(int index) {
  CallOp call = calls[index];
  Phase phase = call.getPhase();
  bool isForward = phase == Phase::Forward;
  int &previous = isForward ? previousForward : previousBackward;
  // The seed of the backward is made before any hook runs.
  bool isSeed = !isForward && previous < 0 && call.getBaseName() == "ones_like";
  ArrayRef<unsigned> found = getSlots(call.getModuleAttr());
  if (!isSeed)
    for (unsigned slot : found)
      extendRun(slot, index, previous, phase);
  previous = index;
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
    lastNeeded[group] = index;
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
    needs = true;
    if (it->second < 0)
      continue;
    for (unsigned slot : found) {
      Run &run = runs[slots[slot].group].forward[slots[slot].lastForwardRun];
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
    if (it != positions.end())
      lastNeeded[group] = std::max(lastNeeded[group], it->second);
  };
  auto noteParam = [&](Value param, unsigned group) {
    needsGrad[param] = -1;
    paramGroup[param] = group;
  };
  for (Operation &op : step.getBody()) {
    if (auto call = dyn_cast<CallOp>(op)) {
      positions[call] = calls.size();
      calls.push_back(call);
      scanCall(calls.size() - 1);
    } else if (auto read = dyn_cast<ReadOp>(op)) {
      auto it = step.memberByParam.find(read.getSourceAttr().getAttr());
      if (it != step.memberByParam.end())
        noteParam(read.getResult(), it->second.group);
    } else if (auto wait = dyn_cast<AllGatherWaitOp>(op)) {
      for (Value result : wait.getResults())
        noteParam(result, step.groupByName.lookup(wait.getStart().getGroupAttr().getAttr()));
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
  ArrayRef<Run> list = runs[group].forward;
  SmallVector<unsigned> modules;
  for (const Run &run : list)
    if (!llvm::is_contained(modules, run.slot))
      modules.push_back(run.slot);
  SmallVector<unsigned> toRun;
  for (const Run &run : list) {
    if (toRun.empty()) {
      found.push_back({run.first, run.last, run.inputNeedsGrad});
      toRun = modules;
    }
    found.back().last = std::max(found.back().last, run.last);
    llvm::erase(toRun, run.slot);
  }
  return found;
}

/// The backwards of the calls, in the order in which they run: the last call first.
SmallVector<Span> HookFinder::getBackwardSpans(unsigned group, size_t numCalls) {
  ArrayRef<Run> list = runs[group].backward;
  if (list.empty())
    return {};
  if (step.groups[group].getModules().size() == 1 && list.size() == numCalls)
    return llvm::map_to_vector(list, [](const Run &run) { return Span{run.first, run.last}; });
  Span all{list.front().first, list.front().last};
  for (const Run &run : list)
    all.last = std::max(all.last, run.last);
  return {all};
}

//===----------------------------------------------------------------------===//
// Hooks
//===----------------------------------------------------------------------===//

/// Components of the path of the group's first module; 0 for the root.
int64_t HookFinder::getDepth(unsigned group) {
  ArrayAttr modules = step.groups[group].getModules();
  if (modules.empty())
    return 0;
  StringRef path = cast<StringAttr>(modules[0]).getValue();
  return path.empty() ? 0 : path.count('.') + 1;
}

void HookFinder::place(HookKind kind, unsigned group, int position, int order, int64_t first,
                       int64_t second) {
  CallOp before = position < static_cast<int>(calls.size()) ? calls[position] : CallOp();
  placed.push_back({{kind, group, before, static_cast<unsigned>(position)},
                    {order, first, second, placed.size()}});
}

/// At one position what ends comes first, inner modules before outer ones; then what begins, outer
/// modules before inner ones. Pre-backward hooks sit on the outputs: of two modules that return the
/// same tensor, the inner one's was set first and runs first.
LogicalResult HookFinder::placeHooks(unsigned group) {
  GroupOp op = step.groups[group];
  SmallVector<ForwardCall> forward = getForwardCalls(group);
  if (forward.empty())
    return op.emitError("no operation of the forward comes from the modules ")
           << op.getModules() << " of group @" << op.getSymName()
           << ", whose parameters would never be gathered";
  int64_t depth = getDepth(group);
  constexpr int ends = 0, begins = 1;
  for (const ForwardCall &call : forward) {
    place(HookKind::PreForward, group, call.first, begins, depth, 0);
    place(HookKind::PostForward, group, call.last + 1, ends, -depth, 0);
  }
  SmallVector<Span> backward = getBackwardSpans(group, forward.size());
  for (auto [index, span] : llvm::enumerate(backward)) {
    // Several calls whose backwards cannot be told apart: the first call's inputs decide.
    const ForwardCall &call = forward[backward.size() == 1 ? 0 : forward.size() - 1 - index];
    int lastForward = backward.size() == 1 ? forward.back().last : call.last;
    place(HookKind::PreBackward, group, span.first, begins, -lastForward, -depth);
    bool isLast = index + 1 == backward.size();
    if (call.inputNeedsGrad) {
      int last = isLast ? std::max(span.last, lastNeeded[group]) : span.last;
      place(HookKind::PostBackward, group, last + 1, ends, -depth, 0);
      placed.back().hook.isLast = isLast;
    } else if (isLast) {
      deferred.push_back(group);
    }
  }
  if (backward.empty())
    deferred.push_back(group);
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
  for (unsigned group : deferred) {
    int64_t order = getDepth(group) == 0 ? -1 : firstParam.lookup(group);
    place(HookKind::PostBackward, group, calls.size(), atTheEnd, order, getDepth(group));
    placed.back().hook.isLast = true;
  }
}

FailureOr<SmallVector<Hook>> HookFinder::find() {
  collectSlots();
  collectCalls();
  for (unsigned group = 0; group < step.groups.size(); ++group)
    if (failed(placeHooks(group)))
      return failure();
  placeFinalHooks();
  llvm::sort(placed, [](const PlacedHook &a, const PlacedHook &b) {
    return std::tie(a.hook.position, a.rank) < std::tie(b.hook.position, b.rank);
  });
  return llvm::map_to_vector(placed, [](const PlacedHook &entry) { return entry.hook; });
}

FailureOr<SmallVector<Hook>> fsdp::findHooks(Step &step) { return HookFinder(step).find(); }
