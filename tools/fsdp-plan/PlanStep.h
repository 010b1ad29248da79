//===- PlanStep.h - Compiles a point as fsdpc does --------------*- C++ -*-===//

#ifndef FSDP_TOOLS_PLAN_PLANSTEP_H
#define FSDP_TOOLS_PLAN_PLANSTEP_H

#include "Point.h"
#include "fsdp/CostModel/CostModel.h"

namespace fsdp::plan_tool {

/// What all points of a run share.
struct PlanSettings {
  std::string axis = "dp", config; // a YAML file as for fsdp-group-parameters, or empty
  std::string replicateAxis;       // empty: none
  Transport transport = Transport::Kernels;
  int64_t simulationBudget = 3000;
  int64_t maxBucketBytes = 0; // 0: no limit
  cost::CostOptions costs;    // those of the cost model
};

/// A captured step. Diagnoses a module that is not in the phase captured, and all errors of points
/// but steps that do not fit.
class PointPlanner {
public:
  static llvm::FailureOr<PointPlanner> create(mlir::ModuleOp captured, std::string model,
                                              const cost::CostModel &costs,
                                              const PlanSettings &settings);

  /// The step by the passes and decisions of `fsdpc --schedule auto`.
  llvm::FailureOr<SweepPoint> plan(const PointRequest &request) const;
  /// Likewise by `fsdpc --schedule fsdp2` without a cap, with the same other requests; those of
  /// the policy `auto` are the default. None if FSDP2's order cannot be compiled.
  std::optional<PlannedStep> planFsdp2(const PointRequest &request) const;

  const std::string &getModel() const { return model; }
  /// The items that a microbatch has on one rank, and their name: tokens if the first input holds
  /// one integer per position of a sample, else samples.
  int64_t getItems() const { return items; }
  const std::string &getItem() const { return item; }

private:
  PointPlanner(mlir::ModuleOp captured, std::string model, const cost::CostModel &costs,
               const PlanSettings &settings);
  llvm::LogicalResult compile(mlir::ModuleOp module, ScheduleChoice schedule,
                              const PointRequest &request) const;
  llvm::FailureOr<PlannedStep> describe(mlir::ModuleOp planned, int64_t capBytes) const;

  mlir::ModuleOp captured;
  std::string model;
  const cost::CostModel &costs;
  const PlanSettings &settings;
  int64_t items;
  std::string item;
  double peakNs; // as in SweepPoint, of one microbatch
};

} // namespace fsdp::plan_tool

#endif // FSDP_TOOLS_PLAN_PLANSTEP_H
