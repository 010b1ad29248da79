//===- ExplainModule.h - Explains a scheduled module ------------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_EXPLAINMODULE_H
#define FSDP_EXPLAIN_EXPLAINMODULE_H

#include "fsdp/Analysis/ScheduleProblem.h"
#include "fsdp/Explain/Print.h"

namespace fsdp::explain {

/// "replicate = 2, shard = 1,024".
std::string describeMesh(MeshOp mesh);

/// Names of a step's operations and their parts, and the sources of costs and bytes. Linear.
StepLabels makeLabels(mlir::ModuleOp module, const StepMemory &memory, const ScheduleProblem &step,
                      const cost::CostModel &costs);

/// Host copies on a timeline of the step. Linear, except for sorting the copies.
std::vector<HostCopyView> viewHostCopies(const ScheduleProblem &step, const StepMemory &memory,
                                         const schedule::Timeline &timeline);

/// The decisions whose reasons are recorded on groups.
std::vector<DecisionView> viewDecisions(const GroupTable &groups);

struct ExplainOptions {
  std::optional<int64_t> memoryCapBytes;
  /// Solve the linear program for a better bound if the makespan exceeds the quick bound by more.
  double quickRatio = 1.001;
};

/// A scheduled module, simulated.
struct ExplainedModule {
  schedule::Problem problem;
  schedule::Plan plan;
  ScheduleView view;
  Explanation explanation;
  schedule::LowerBound bound;
  /// If the variation of durations is known.
  std::optional<schedule::JitteredMakespan> jittered;

  ExplainedPlan getPlan() const { return {problem, plan, view, explanation, bound}; }
};

/// The problem of the same step under other costs; nullopt if the step makes no copies to or from
/// the host. For a module that explainModule accepts.
std::optional<schedule::Problem> findProblemOfHostCopies(mlir::ModuleOp module,
                                                         const cost::CostModel &costs);

/// Needs a scheduled or planned module of several ranks. Diagnoses the errors of getScheduledStep,
/// a plan that schedule::verify refuses, and a peak above the cap.
llvm::FailureOr<ExplainedModule> explainModule(mlir::ModuleOp module, const cost::CostModel &costs,
                                               const ExplainOptions &options);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_EXPLAINMODULE_H
