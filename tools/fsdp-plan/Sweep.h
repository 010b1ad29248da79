//===- Sweep.h - The best schedules of a step on meshes of many sizes -------===//

#ifndef FSDP_TOOLS_PLAN_SWEEP_H
#define FSDP_TOOLS_PLAN_SWEEP_H

#include "fsdp/Analysis/ScheduleProblem.h"
#include "fsdp/CostModel/CostModel.h"
#include "fsdp/Schedule/Optimize.h"
#include "passes/Pipelines.h"

#include <functional>

namespace fsdp::plan_tool {

/// Ranks over which parameters are sharded, and how many replicas of them there are.
struct MeshSize {
  int64_t shards = 1, replicas = 1;

  int64_t getRanks() const { return shards * replicas; }
};

/// What is on the host between its uses.
struct HostPlaces {
  bool isState = false;        // the optimizer's
  bool areActivations = false; // what blocks keep for their backward
  bool operator==(const HostPlaces &) const = default;
};

/// One captured step on one mesh under one cap.
struct SweepPoint {
  std::string model;
  int64_t ranks = 0, replicas = 1; // replicas divide the ranks
  int64_t microbatches = 1;        // of a step
  std::string gradientSync;        // GradientSync, of several microbatches
  std::string recompute;           // RecomputePolicy
  HostPlaces onHost;
  std::string kernels;             // "exact", "fast", "off"
  bool areKernelsLeftOut = false;  // with them the step does not fit, though they were allowed
  int64_t capBytes = 0;            // 0: none
  bool fits = false;
  /// Of any schedule; what else follows is absent where this exceeds the cap.
  int64_t minimumPeakBytes = 0;
  /// Inside operators, as far as they are measured; part of both peaks.
  int64_t temporaryBytes = 0;
  bool areTemporariesKnown = false;
  std::string minimumPlace; // the module where it occurs
  double stepNs = 0, computeNs = 0, exposedNs = 0, boundNs = 0;
  std::optional<schedule::JitteredMakespan> jittered; // where durations are known to vary
  std::optional<double> fsdp2Ns;                      // FSDP2's order, where it fits
  int64_t peakBytes = 0;
  unsigned kept = 0, gathers = 0, reductions = 0; // uses kept; launches
  int64_t itemsPerStep = 0;                       // all ranks together
  std::string item;                               // "tokens" or "samples"
  /// What the model's products take at the device's peak, what is computed again not counted.
  double peakNs = 0;
  /// No other point of this model on as many ranks is both faster per microbatch and smaller.
  bool isPareto = false;

  double getMicrobatchNs() const { return stepNs / static_cast<double>(microbatches); }
  double getItemsPerSec() const { return static_cast<double>(itemsPerStep) / (stepNs / 1e9); }
  /// The share of the device's peak that the model uses (MFU), of 1.
  double getUtilization() const { return peakNs / stepNs; }
  /// All devices together.
  double getDeviceHoursPerBillion() const {
    return static_cast<double>(ranks) * 1e9 / getItemsPerSec() / 3600;
  }
};

struct SweepOptions {
  std::string axis = "dp", config; // YAML as of fsdp-group-parameters; may be empty
  std::string replicateAxis;       // empty: none
  std::vector<MeshSize> meshes;    // those of as many ranks stand together
  std::vector<int64_t> microbatches = {1};          // each is tried
  std::vector<std::string> gradientSync = {"each"}; // likewise, of several microbatches
  /// Ascending. Empty: fractions of the least peak, and the device's memory.
  std::vector<int64_t> capBytes;
  int64_t reservedBytes = 0; // of the device's memory, for the driver and libraries
  std::vector<std::pair<std::string, RecomputePolicy>> recompute; // each is tried
  /// `Auto`: where a step does not fit without.
  OffloadPolicy offload = OffloadPolicy::None, activations = OffloadPolicy::None;
  FusionChoice fusion = FusionChoice::Auto;
  Transport transport = Transport::Kernels;
  int64_t simulationBudget = 0;
  std::optional<int64_t> maxBucketBytes;
  /// Told what is searched for next, how many such searches are done and how many there are; may be
  /// empty. Each has all caps.
  std::function<void(const SweepPoint &next, size_t done, size_t all)> progress;
};

/// A mesh of a sweep: "replicate=2,dp=8".
std::string describeMesh(const SweepOptions &options, MeshSize size);

/// Diagnoses a module that is of another phase.
llvm::LogicalResult checkIsCaptured(mlir::ModuleOp module);

/// What a step consumes on one rank: tokens where its first input has integers per position of a
/// sample, else samples.
std::pair<int64_t, std::string> countItems(mlir::ModuleOp captured);

/// What the products of a captured step take at the device's peak, nanoseconds.
double getPeakNs(mlir::ModuleOp captured, const cost::CostModel &costs);

/// The points of one captured module: by ranks, recomputation and cap. Diagnoses what is wrong with
/// it.
mlir::FailureOr<std::vector<SweepPoint>> sweep(mlir::ModuleOp captured, const std::string &model,
                                               const cost::CostModel &costs,
                                               const SweepOptions &options);

} // namespace fsdp::plan_tool

#endif // FSDP_TOOLS_PLAN_SWEEP_H
