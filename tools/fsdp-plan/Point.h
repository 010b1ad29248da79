//===- Point.h - A captured step on one mesh under one cap ------*- C++ -*-===//

#ifndef FSDP_TOOLS_PLAN_POINT_H
#define FSDP_TOOLS_PLAN_POINT_H

#include "fsdp/Explain/ScheduleView.h"
#include "fsdp/Transforms/CapRefusal.h"
#include "passes/Pipelines.h"

#include <map>
#include <optional>
#include <string>

namespace fsdp::plan_tool {

/// The number of ranks over which parameters are sharded, and the number of replicas.
struct MeshSize {
  int64_t shards = 1, replicas = 1;

  int64_t getRanks() const { return shards * replicas; }
};

/// What a point asks of the compiler.
struct PointRequest {
  MeshSize mesh;
  int64_t microbatches = 1;
  std::string gradientSync = {}; // if there are several microbatches
  RecomputePolicy recompute = RecomputePolicy::Auto;
  OffloadPolicy state = OffloadPolicy::None, activations = OffloadPolicy::None,
                chunks = OffloadPolicy::None;
  FusionChoice fusion = FusionChoice::Auto;
  int64_t capBytes = 0; // of the arena and the temporaries beside it; 0: none
};

/// What the compiler decided for the groups of a step, as numbers of groups.
struct GroupDecisions {
  size_t numGroups = 0, stateOnHost = 0, activationsOnHost = 0, chunksOnHost = 0;
  std::map<RecomputePolicy, size_t> recomputed; // by what is recomputed

  /// "recompute full in 3 of 33 groups" for each decision that is not the default.
  std::vector<std::string> describe() const;
  /// "cheap", or "cheap 30, selected 4".
  std::string describeRecomputed() const;
  /// "state", "state 20, activations"; "-" if nothing is on the host.
  std::string describeOnHost() const;
};

/// The planned step of a point. Times are nanoseconds, sizes bytes of one rank.
struct PlannedStep {
  double stepNs = 0, computeNs = 0, exposedNs = 0, boundNs = 0;
  std::optional<schedule::JitteredMakespan> jittered; // if the variation of durations is known
  int64_t arenaBytes = 0, scratchBytes = 0;           // the latter for temporaries of operators
  bool areTemporariesKnown = false;
  explain::MemoryBytes liveBytes = {};            // in the arena, by category, at the peak
  unsigned kept = 0, gathers = 0, reductions = 0; // uses for which the copy is kept; launches
  GroupDecisions decisions;
  bool hasKernels = false;

  int64_t getNeededBytes() const { return arenaBytes + scratchBytes; }
};

/// A captured step under a request: planned, or refused since it does not fit the cap.
struct SweepPoint {
  std::string model;
  PointRequest request;
  std::optional<PlannedStep> step;
  CapRefusal refusal;            // if there is no step
  std::optional<double> fsdp2Ns; // the step in FSDP2's order, if it fits
  std::string kernels;           // of the step, or asked for: "exact", "fast", "off"
  int64_t itemsPerStep = 0;      // all ranks together
  std::string item;              // "tokens" or "samples"
  /// Time of the model's matrix products at the device's peak rate, without recomputation.
  double peakNs = 0;
  /// True if no other point on as many ranks, of this model or of this global batch, is both faster
  /// per item and smaller.
  bool isPareto = false;

  // The functions below need a step.
  double getItemsPerSec() const { return static_cast<double>(itemsPerStep) / (step->stepNs / 1e9); }
  double getItemsPerSecAndRank() const {
    return getItemsPerSec() / static_cast<double>(request.mesh.getRanks());
  }
  /// The fraction of the device's peak rate that the model uses (MFU).
  double getUtilization() const { return peakNs / step->stepNs; }
  /// Summed over all devices.
  double getDeviceHoursPerBillion() const { return 1e9 / getItemsPerSecAndRank() / 3600; }
};

} // namespace fsdp::plan_tool

#endif // FSDP_TOOLS_PLAN_POINT_H
