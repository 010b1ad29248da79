//===- Sweep.h - A step on meshes of many sizes under many caps -*- C++ -*-===//

#ifndef FSDP_TOOLS_PLAN_SWEEP_H
#define FSDP_TOOLS_PLAN_SWEEP_H

#include "PlanStep.h"

#include <functional>

namespace fsdp::plan_tool {

/// Called before each search with what it is about.
using ProgressReport = std::function<void(const std::string &next)>;

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

/// "llama on 64 ranks, recompute auto, cap 40.0 GiB".
std::string describe(const PointPlanner &planner, const PointRequest &request);

/// The points of one request, by cap. Diagnoses errors of the module.
llvm::FailureOr<std::vector<SweepPoint>> sweep(const PointPlanner &planner,
                                               const PointRequest &request,
                                               const SweepOptions &options,
                                               const ProgressReport &progress);

/// Sets isPareto. Points on as many ranks are compared if they are of one model, or of one global
/// batch.
void markPareto(llvm::MutableArrayRef<SweepPoint> points, bool isOfGlobalBatch);

} // namespace fsdp::plan_tool

#endif // FSDP_TOOLS_PLAN_SWEEP_H
