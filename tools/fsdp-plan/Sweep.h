//===- Sweep.h - The best schedules of a step on meshes of many sizes -------===//

#ifndef FSDP_TOOLS_PLAN_SWEEP_H
#define FSDP_TOOLS_PLAN_SWEEP_H

#include "fsdp/Analysis/ScheduleProblem.h"
#include "fsdp/CostModel/CostModel.h"
#include "fsdp/Schedule/Optimize.h"
#include "passes/Pipelines.h"

#include <functional>

namespace fsdp::plan_tool {

/// The number of ranks over which parameters are sharded, and the number of replicas.
struct MeshSize {
  int64_t shards = 1, replicas = 1;

  int64_t getRanks() const { return shards * replicas; }
};

/// Which tensors are on the host between their uses.
struct HostPlaces {
  bool isState = false;        // optimizer state
  bool areActivations = false; // of blocks, kept for their backward
  bool operator==(const HostPlaces &) const = default;
};

/// One captured step on one mesh under one cap.
struct SweepPoint {
  std::string model;
  int64_t ranks = 0, replicas = 1; // replicas divide the ranks
  int64_t microbatches = 1;        // in a step
  std::string gradientSync;        // GradientSync, if there are several microbatches
  std::string recompute;           // RecomputePolicy
  HostPlaces onHost;
  std::string kernels;             // "exact", "fast", "off"
  bool areKernelsLeftOut = false;  // allowed, but the step fits only without them
  int64_t capBytes = 0;            // 0: none
  bool fits = false;
  /// The least peak of any schedule. Where it exceeds the cap, the predictions below are absent.
  int64_t minimumPeakBytes = 0;
  /// Temporaries inside operators, as far as they are measured; included in both peaks.
  int64_t temporaryBytes = 0;
  bool areTemporariesKnown = false;
  std::string minimumPlace; // the module in which minimumPeakBytes occurs
  double stepNs = 0, computeNs = 0, exposedNs = 0, boundNs = 0;
  std::optional<schedule::JitteredMakespan> jittered; // if the variation of durations is known
  std::optional<double> fsdp2Ns;                      // FSDP2's order, if it fits
  int64_t peakBytes = 0;
  unsigned kept = 0, gathers = 0, reductions = 0; // uses for which the copy is kept; launches
  int64_t itemsPerStep = 0;                       // all ranks together
  std::string item;                               // "tokens" or "samples"
  /// Time of the model's matrix products at the device's peak rate, without recomputation.
  double peakNs = 0;
  /// True if no other point of this model on as many ranks is both faster per microbatch and
  /// smaller.
  bool isPareto = false;

  double getMicrobatchNs() const { return stepNs / static_cast<double>(microbatches); }
  double getItemsPerSec() const { return static_cast<double>(itemsPerStep) / (stepNs / 1e9); }
  /// The fraction of the device's peak rate that the model uses (MFU).
  double getUtilization() const { return peakNs / stepNs; }
  /// Summed over all devices.
  double getDeviceHoursPerBillion() const {
    return static_cast<double>(ranks) * 1e9 / getItemsPerSec() / 3600;
  }
};

struct SweepOptions {
  std::string axis = "dp", config; // a YAML file as for fsdp-group-parameters, or empty
  std::string replicateAxis;       // empty: none
  std::vector<MeshSize> meshes;    // sorted so that meshes of as many ranks are adjacent
  std::vector<int64_t> microbatches = {1};          // each is tried
  std::vector<std::string> gradientSync = {"each"}; // each is tried, with several microbatches
  /// Ascending. If empty, multiples of the least peak and the device's memory are tried.
  std::vector<int64_t> capBytes;
  int64_t reservedBytes = 0; // part of the device's memory, for the driver and libraries
  std::vector<std::pair<std::string, RecomputePolicy>> recompute; // each is tried
  /// `Auto`: only where a step does not fit otherwise.
  OffloadPolicy offload = OffloadPolicy::None, activations = OffloadPolicy::None;
  FusionChoice fusion = FusionChoice::Auto;
  Transport transport = Transport::Kernels;
  int64_t simulationBudget = 0;
  std::optional<int64_t> maxBucketBytes;
  /// Called before each search with its point, the number of searches done and their total; may be
  /// empty. One search covers all caps.
  std::function<void(const SweepPoint &next, size_t done, size_t all)> progress;
};

/// The text of a mesh: "replicate=2,dp=8".
std::string describeMesh(const SweepOptions &options, MeshSize size);

/// Diagnoses a module that is not in the phase captured.
llvm::LogicalResult checkIsCaptured(mlir::ModuleOp module);

/// The items that a step consumes on one rank, and their name: tokens if the first input holds one
/// integer per position of a sample, else samples.
std::pair<int64_t, std::string> countItems(mlir::ModuleOp captured);

/// Time in nanoseconds of a captured step's matrix products at the device's peak rate.
double getPeakNs(mlir::ModuleOp captured, const cost::CostModel &costs);

/// The points of one captured module, by ranks, recomputation and cap. Diagnoses errors of the
/// module.
mlir::FailureOr<std::vector<SweepPoint>> sweep(mlir::ModuleOp captured, const std::string &model,
                                               const cost::CostModel &costs,
                                               const SweepOptions &options);

} // namespace fsdp::plan_tool

#endif // FSDP_TOOLS_PLAN_SWEEP_H
