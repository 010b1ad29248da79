//===- ModuleRuns.h - Runs of groups' modules -------------------*- C++ -*-===//
//
// The first half of findHooks(): the operations of each microbatch that belong to each call of a
// group's module, and whether their inputs need gradients.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_MODULERUNS_H
#define FSDP_LIB_ANALYSIS_MODULERUNS_H

#include "fsdp/Analysis/Stages.h"
#include "fsdp/Config/ModuleTree.h"

#include <deque>

namespace fsdp {

/// One module of one group.
struct Slot {
  unsigned group, depth;
};

/// One call of a module of a group.
struct ModuleCall {
  unsigned slot;
  int64_t call;
  bool operator==(const ModuleCall &other) const = default;
};

/// Operations first, ..., last of the step, all of one phase and one call of a module.
struct Run {
  ModuleCall module;
  int first, last;
  /// An input from before the run needs a gradient.
  bool inputNeedsGrad = false;
};

struct GroupRuns {
  llvm::SmallVector<Run> forward, backward; // in the order of their first operation
};

/// The state of the walk over the step in one microbatch. Microbatches may be interleaved.
struct Microbatch {
  int64_t number = 0;
  llvm::SmallVector<GroupRuns> runs; // by group
  /// Per group: the last call that computes one of its gradients or uses one of its parameters.
  llvm::SmallVector<int> lastNeeded;
  llvm::SmallVector<int> lastForwardRun, lastBackwardRun; // per slot: index in the group's runs
  int previousForward = -1, previousBackward = -1, last = -1;
};

/// Calls are identified by their index in the step.
class ModuleRuns {
public:
  /// Walks over the step. Both arguments must outlive the object.
  ModuleRuns(Step &step, const Stages &stages);

  llvm::ArrayRef<aten::CallOp> getCalls() const { return calls; }
  const std::deque<Microbatch> &getMicrobatches() const { return microbatches; }
  const Slot &getSlot(unsigned slot) const { return slots[slot]; }
  /// The modules of groups that are `module` or contain it, outermost first.
  llvm::ArrayRef<unsigned> getSlots(mlir::StringAttr module);
  /// The number of components in the path of the group's first module; 0 for the root.
  int64_t getDepth(unsigned group);
  /// True if the forward has one run with this call number. Captures number calls; several runs
  /// have one number only in scripted loops and in hand-written text.
  bool isCallOnce(const Microbatch &microbatch, ModuleCall module) const;
  int64_t getUnit(int index) const { return stages.getUnit(calls[index]); }
  /// The position after the last call of a unit (Stages.h); nullopt if the unit is empty.
  std::optional<int> getEnd(int64_t unit) const;

private:
  void collectSlots();
  void collectCalls();
  Microbatch &enterMicrobatch(int64_t number);
  void scanCall(int index);
  void noteParams(int index);
  void noteGradientFlow(int index, llvm::ArrayRef<unsigned> found);
  void extendRun(ModuleCall module, int index, int previous, aten::Phase phase);

  Step &step;
  const Stages &stages;
  llvm::SmallVector<Slot> slots;
  ModuleTree tree;
  llvm::DenseMap<const Module *, llvm::SmallVector<unsigned>> slotsOf;
  llvm::DenseMap<mlir::StringAttr, llvm::SmallVector<unsigned>> slotsByModule; // by path
  llvm::SmallVector<aten::CallOp> calls;
  std::deque<Microbatch> microbatches;
  Microbatch *current = nullptr;                    // that of the walk's position
  llvm::DenseMap<int64_t, int> endOfUnit;           // by number: after its last call
  llvm::DenseMap<mlir::Value, unsigned> paramGroup; // of full parameters and their views
  /// Position of the call that computes a value which needs a gradient; -1 for a parameter.
  llvm::DenseMap<mlir::Value, int> needsGrad;
};

} // namespace fsdp

#endif // FSDP_LIB_ANALYSIS_MODULERUNS_H
