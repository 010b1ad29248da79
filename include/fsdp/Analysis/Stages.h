//===- Stages.h - Stages with interleaved microbatches ----------*- C++ -*-===//
//
// With `stages` of fsdp.accumulation the microbatches of a step are interleaved in the order of
// torch's ScheduleInterleaved1F1B on one rank. A unit is the forward or the backward of one stage
// for one microbatch. Of n stages:
//
//   forward unit k   stage k % n of microbatch k / n
//   backward unit k  stage n - 1 - k % n of microbatch k / n
//
// The first n - 1 units are forwards, then one forward and one backward alternate, then the
// remaining backwards run. The forward of a stage begins with the first operation of the module
// that names it. Operations before the second stage belong to the first. The backward of an
// operation belongs to the stage of its module's forward. A backward operation whose module runs in
// several stages, or is the root, belongs to the stage of the operations before it, or to the later
// unit that computes one of its operands.
//
// Source: torch 2.11, torch/distributed/pipelining/schedules.py, _get_1f1b_rank_ops.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STAGES_H
#define FSDP_ANALYSIS_STAGES_H

#include "fsdp/Analysis/Step.h"

namespace fsdp {

class Stages {
public:
  /// The stages of a step, before or after its microbatches are interleaved; empty if the step
  /// names none. Diagnoses a stage that does not run in one piece, a group or parameter that is
  /// used in two stages, a parameter in the root group, and a backward that needs a gradient of an
  /// earlier stage.
  static mlir::FailureOr<Stages> find(Step &step);

  bool isEmpty() const { return names.empty(); }
  size_t size() const { return names.size(); }
  unsigned lookup(aten::CallOp call) const { return stageOf.lookup(call); }
  /// The unit's index in execution order. Without stages each microbatch is one unit.
  int64_t getUnit(aten::Phase phase, unsigned stage, int64_t microbatch) const;
  int64_t getUnit(aten::CallOp call) const {
    return getUnit(call.getPhase(), lookup(call), call.getMicrobatch());
  }
  /// True if all groups of some stage lie in the group's one module, which is then the root of its
  /// stage in FSDP2.
  bool isRootOfStage(Step &step, GroupOp group) const;

private:
  friend class StageFinder;
  llvm::SmallVector<mlir::StringAttr> names;
  int64_t microbatches = 1;
  llvm::DenseMap<mlir::Operation *, unsigned> stageOf; // calls
  llvm::DenseMap<mlir::Operation *, unsigned> stageOfGroup;
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_STAGES_H
