//===- ExplainModule.h - From a scheduled module to its reasons --*- C++ -*-===//

#ifndef FSDP_EXPLAIN_EXPLAINMODULE_H
#define FSDP_EXPLAIN_EXPLAINMODULE_H

#include "fsdp/Analysis/ScheduleProblem.h"
#include "fsdp/Explain/Print.h"

namespace fsdp::explain {

/// "replicate = 2, shard = 1,024".
std::string describeMesh(MeshOp mesh);

/// Names of a step's operations, their parts and where their costs and bytes come from. Linear.
StepLabels makeLabels(mlir::ModuleOp module, const StepMemory &memory, const ScheduleProblem &step,
                      const cost::CostModel &costs);

/// Copies to and from the host on a timeline of the step. Linear, but for sorting copies.
std::vector<HostCopyView> viewHostCopies(const ScheduleProblem &step, const StepMemory &memory,
                                         const schedule::Timeline &timeline);

/// The decisions that groups have the reasons of.
std::vector<DecisionView> viewDecisions(const GroupTable &groups);

struct ExplainOptions {
  std::optional<int64_t> memoryCapBytes;
  /// Solve the linear program for a better bound, where the quick one leaves more than this.
  double quickRatio = 1.001;
};

/// A scheduled module, simulated.
struct ExplainedModule {
  schedule::Problem problem;
  schedule::Plan plan;
  ScheduleView view;
  Explanation explanation;
  schedule::LowerBound bound;

  ExplainedPlan getPlan() const { return {problem, plan, view, explanation, bound}; }
};

/// The module is scheduled or planned and has several ranks. Diagnoses what getScheduledStep does,
/// a plan that a schedule's check refuses, and a peak above the cap.
llvm::FailureOr<ExplainedModule> explainModule(mlir::ModuleOp module, const cost::CostModel &costs,
                                               const ExplainOptions &options);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_EXPLAINMODULE_H
