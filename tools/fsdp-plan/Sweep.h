//===- Sweep.h - A step on meshes of many sizes under many caps -*- C++ -*-===//

#ifndef FSDP_TOOLS_PLAN_SWEEP_H
#define FSDP_TOOLS_PLAN_SWEEP_H

#include "Findings.h"
#include "PlanStep.h"

namespace fsdp::plan_tool {

struct SweepOptions {
  std::vector<MeshSize> meshes;                     // points of as many ranks are adjacent
  std::vector<int64_t> microbatches = {1};          // each is tried
  std::vector<std::string> gradientSync = {"each"}; // each is tried, with several microbatches
  int64_t globalBatch = 0; // items of a step, which gives its microbatches; 0: as `microbatches`
  /// Each is tried, in ascending order. If empty, the device's memory is tried, and then less and
  /// less memory.
  std::vector<int64_t> capBytes;
  int64_t deviceBytes = 0; // of the device, without what is reserved; 0: unknown
  std::vector<RecomputePolicy> recompute = {RecomputePolicy::Auto}; // each is tried
  OffloadPolicy state = OffloadPolicy::None, activations = OffloadPolicy::None,
                chunks = OffloadPolicy::None;
  FusionChoice fusion = FusionChoice::Auto;
};

/// A request for each mesh, number of microbatches, gradient synchronisation and policy of
/// recomputation, without caps. Where no number of microbatches makes the global batch, `refused`
/// gets a line that says so.
std::vector<PointRequest> listRequests(const PointPlanner &planner, const SweepOptions &options,
                                       std::vector<std::string> &refused);

/// Finds the points of one request. Diagnoses errors of the module.
llvm::LogicalResult sweep(const PointPlanner &planner, const PointRequest &request,
                          const SweepOptions &options, const Listener<SweepPoint> &listener);

/// Sorts the points of one request by their caps. A schedule that fits a smaller cap fits a larger
/// one, so a faster one takes the place of what the search has found.
void sortByCap(std::vector<SweepPoint> &points);

/// Sets isPareto. Points on as many ranks are compared if they are of one model, or of one global
/// batch.
void markPareto(llvm::MutableArrayRef<SweepPoint> points, bool isOfGlobalBatch);

} // namespace fsdp::plan_tool

#endif // FSDP_TOOLS_PLAN_SWEEP_H
