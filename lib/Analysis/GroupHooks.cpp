//===- GroupHooks.cpp - Positions of FSDP2's hooks ------------------------===//

#include "fsdp/Analysis/GroupHooks.h"

#include "ModuleRuns.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>
#include <tuple>

using namespace mlir;
using namespace fsdp;
using aten::CallOp;
using aten::Phase;

namespace {

/// One forward of a group's modules.
struct ForwardCall {
  int first, last;
  bool inputNeedsGrad;
  SmallVector<ModuleCall> modules;
  /// All modules have run. An incomplete call has no post-forward and no pre-backward.
  bool isComplete = false;
};

/// The backward of one forward call, or of several whose backwards overlap.
struct BackwardSpan {
  int first, last;
  int lastForward;     // the end of the forward
  bool inputNeedsGrad; // of the first of the calls
  bool isComplete;     // of the forward of any of them
};

/// A hook and its rank: hooks at one position are ordered by unit, then by rank, smaller first.
struct PlacedHook {
  Hook hook;
  std::tuple<int, int64_t, int64_t, size_t> rank;
};

/// Places the hooks microbatch by microbatch.
class HookFinder {
public:
  HookFinder(Step &step, const Stages &stages) : step(step), stages(stages), runs(step, stages) {}
  FailureOr<SmallVector<Hook>> find();

private:
  SmallVector<ForwardCall> getForwardCalls(unsigned group);
  SmallVector<BackwardSpan> getBackwardSpans(unsigned group, ArrayRef<ForwardCall> forward);
  LogicalResult placeMicrobatch();
  void place(HookKind kind, unsigned group, int position, int64_t unit, int order, int64_t first,
             int64_t second);
  LogicalResult placeHooks(unsigned group);
  void placeFinalHooks();

  Step &step;
  const Stages &stages;
  ModuleRuns runs;
  const Microbatch *current = nullptr; // the one whose hooks are placed
  SmallVector<unsigned> deferred;      // its groups whose post-backward runs at its end
  SmallVector<PlacedHook> placed;
};

} // namespace

//===----------------------------------------------------------------------===//
// From runs of modules to calls of groups
//===----------------------------------------------------------------------===//

/// FSDP2's rule for several modules: a call begins with the first module that runs and ends when
/// all have run. Modules without operations count as run.
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

/// The backwards of the calls in execution order; overlapping ones are merged.
SmallVector<BackwardSpan> HookFinder::getBackwardSpans(unsigned group,
                                                       ArrayRef<ForwardCall> forward) {
  ArrayRef<Run> list = current->runs[group].backward;
  if (list.empty())
    return {};
  SmallVector<BackwardSpan> spans;
  auto add = [&](const Run &run, const ForwardCall &call) {
    spans.push_back({run.first, run.last, call.last, call.inputNeedsGrad, call.isComplete});
  };
  bool isNumbered = llvm::all_of(current->runs[group].forward, [&](const Run &run) {
    return runs.isCallOnce(*current, run.module);
  });
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
  // Spans of the modules of one call are merged, too.
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
    // The inputs of the first call receive their gradients last.
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

void HookFinder::place(HookKind kind, unsigned group, int position, int64_t unit, int order,
                       int64_t first, int64_t second) {
  Hook hook{kind, group, /*before=*/{}, static_cast<unsigned>(position)};
  hook.microbatch = current->number;
  hook.unit = unit;
  placed.push_back({hook, {order, first, second, placed.size()}});
}

/// At one position first the hooks that end calls, inner modules before outer ones, then those that
/// begin calls, outer modules before inner ones. Pre-backward hooks are on outputs: if two modules
/// return the same tensor, the inner module's hook was registered first and runs first.
LogicalResult HookFinder::placeHooks(unsigned group) {
  GroupOp op = step.groups[group];
  SmallVector<ForwardCall> forward = getForwardCalls(group);
  if (forward.empty()) {
    // Parameters that only unused modules hold are never gathered.
    if (step.isEvaluation() || step.getTrained(op).empty())
      return success();
    return op.emitError("no operation of the forward comes from the modules ")
           << op.getModules() << " of group @" << op.getSymName()
           << ", whose parameters would never be gathered";
  }
  int64_t depth = runs.getDepth(group);
  constexpr int ends = 0, begins = 1;
  for (const ForwardCall &call : forward) {
    place(HookKind::PreForward, group, call.first, runs.getUnit(call.first), begins, depth, 0);
    if (call.isComplete)
      place(HookKind::PostForward, group, call.last + 1, runs.getUnit(call.last), ends, -depth, 0);
  }
  SmallVector<BackwardSpan> backward = getBackwardSpans(group, forward);
  for (auto [index, span] : llvm::enumerate(backward)) {
    if (span.isComplete)
      place(HookKind::PreBackward, group, span.first, runs.getUnit(span.first), begins,
            -span.lastForward, -depth);
    bool isLast = index + 1 == backward.size();
    if (span.inputNeedsGrad) {
      int last = isLast ? std::max(span.last, current->lastNeeded[group]) : span.last;
      place(HookKind::PostBackward, group, last + 1, runs.getUnit(last), ends, -depth, 0);
      placed.back().hook.isLast = isLast;
    } else if (isLast) {
      deferred.push_back(group);
    }
  }
  if (backward.empty())
    deferred.push_back(group);
  return success();
}

/// Post-backward hooks of FSDP2's final callback: the root's, then in the order of the model's
/// modules, which is that of their first parameters.
void HookFinder::placeFinalHooks() {
  DenseMap<unsigned, int64_t> firstParam;
  for (auto [index, param] : llvm::enumerate(step.params)) {
    auto path = StringAttr::get(param.getContext(), param.getSymName());
    for (unsigned slot : runs.getSlots(path))
      firstParam.try_emplace(runs.getSlot(slot).group, index);
  }
  constexpr int atTheEnd = 2;
  for (unsigned group : deferred) {
    int64_t order = runs.getDepth(group) == 0 ? -1 : firstParam.lookup(group);
    // FSDP2's callback runs at the end of each backward: of a microbatch, or of a stage of it.
    CallOp forward = runs.getCalls()[current->runs[group].forward.front().first];
    int64_t unit = stages.getUnit(Phase::Backward, stages.lookup(forward), current->number);
    place(HookKind::PostBackward, group, runs.getEnd(unit).value_or(current->last + 1), unit,
          atTheEnd, order, runs.getDepth(group));
    placed.back().hook.isLast = true;
  }
}

LogicalResult HookFinder::placeMicrobatch() {
  deferred.clear();
  for (unsigned group = 0; group < step.groups.size(); ++group)
    if (failed(placeHooks(group)))
      return failure();
  placeFinalHooks();
  return success();
}

FailureOr<SmallVector<Hook>> HookFinder::find() {
  for (const Microbatch &microbatch : runs.getMicrobatches()) {
    current = &microbatch;
    if (failed(placeMicrobatch()))
      return failure();
  }
  llvm::sort(placed, [](const PlacedHook &a, const PlacedHook &b) {
    return std::tie(a.hook.position, a.hook.unit, a.rank) <
           std::tie(b.hook.position, b.hook.unit, b.rank);
  });
  ArrayRef<CallOp> calls = runs.getCalls();
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
