//===- ModuleRuns.cpp - Runs of groups' modules ---------------------------===//

#include "ModuleRuns.h"

#include "fsdp/IR/AtenSemantics.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;
using aten::Phase;

ModuleRuns::ModuleRuns(Step &step, const Stages &stages) : step(step), stages(stages) {
  collectSlots();
  enterMicrobatch(0);
  collectCalls();
}

void ModuleRuns::collectSlots() {
  for (auto [index, group] : llvm::enumerate(step.groups))
    for (auto path : group.getModules().getAsRange<StringAttr>()) {
      const Module &module = tree.add(path.getValue());
      slotsOf[&module].push_back(slots.size());
      slots.push_back({static_cast<unsigned>(index), module.depth});
    }
}

Microbatch &ModuleRuns::enterMicrobatch(int64_t number) {
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

ArrayRef<unsigned> ModuleRuns::getSlots(StringAttr module) {
  auto [it, isNew] = slotsByModule.try_emplace(module);
  if (!isNew)
    return it->second;
  for (const Module *outer : getChain(tree.add(module.getValue())))
    if (auto known = slotsOf.find(outer); known != slotsOf.end())
      llvm::append_range(it->second, known->second);
  return it->second;
}

bool ModuleRuns::isCallOnce(const Microbatch &microbatch, ModuleCall module) const {
  return llvm::count_if(microbatch.runs[slots[module.slot].group].forward,
                        [&](const Run &run) { return run.module == module; }) == 1;
}

void ModuleRuns::extendRun(ModuleCall module, int index, int previous, Phase phase) {
  bool isForward = phase == Phase::Forward;
  GroupRuns &runs = current->runs[slots[module.slot].group];
  SmallVector<Run> &list = isForward ? runs.forward : runs.backward;
  int &newest = (isForward ? current->lastForwardRun : current->lastBackwardRun)[module.slot];
  if (newest >= 0 && list[newest].module == module && list[newest].last == previous) {
    list[newest].last = index;
    return;
  }
  // Other calls may interrupt the backward of one call.
  if (!isForward && isCallOnce(*current, module))
    for (auto [number, run] : llvm::enumerate(list))
      if (run.module == module) {
        run.last = index;
        newest = number;
        return;
      }
  newest = list.size();
  list.push_back({module, index, index});
}

void ModuleRuns::scanCall(int index) {
  CallOp call = calls[index];
  Phase phase = call.getPhase();
  bool isForward = phase == Phase::Forward;
  int &previous = isForward ? current->previousForward : current->previousBackward;
  // autograd makes the first gradient of the backward before any hook runs.
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

void ModuleRuns::noteParams(int index) {
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

void ModuleRuns::noteGradientFlow(int index, ArrayRef<unsigned> found) {
  CallOp call = calls[index];
  bool needs = false;
  for (Value operand : call.getOperands()) {
    auto it = needsGrad.find(operand);
    if (it == needsGrad.end())
      continue;
    // A buffer that another microbatch wrote carries no gradient.
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

void ModuleRuns::collectCalls() {
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
    } else if (auto uses = dyn_cast<StepOpInterface>(op)) {
      // Reductions, or fsdp.pack: both name their group.
      auto name = op.getAttrOfType<FlatSymbolRefAttr>("group");
      for (Value gradient : uses.getPacked())
        noteGradient(step.groupByName.lookup(name.getAttr()), gradient);
    }
  }
}

int64_t ModuleRuns::getDepth(unsigned group) {
  ArrayAttr modules = step.groups[group].getModules();
  return modules.empty() ? 0 : tree.add(cast<StringAttr>(modules[0]).getValue()).depth;
}

std::optional<int> ModuleRuns::getEnd(int64_t unit) const {
  auto found = endOfUnit.find(unit);
  return found == endOfUnit.end() ? std::nullopt : std::optional(found->second);
}
