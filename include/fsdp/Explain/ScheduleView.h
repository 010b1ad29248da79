//===- ScheduleView.h - A simulated step for display ------------*- C++ -*-===//
//
// The common input of trace, page and text: when each operation and collective runs on which lane,
// and which bytes are live. Built from a problem, a plan and its timeline, without the IR. Times
// are nanoseconds from the beginning of the step, sizes bytes.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EXPLAIN_SCHEDULEVIEW_H
#define FSDP_EXPLAIN_SCHEDULEVIEW_H

#include "fsdp/Explain/CriticalPath.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp::explain {

/// Categories of live bytes. `Other`: bytes that the labels do not account for.
enum class MemoryCategory : uint8_t {
  Shards,         // this rank's parameters
  OptimizerState, // likewise
  Inputs,         // inputs, buffers and constants
  Activations,    // computed in the forward
  Backward,       // computed in the backward, except gradients of parameters
  Gradients,      // of parameters: being written, waiting for reduction, reduced
  Gathered,       // full parameters
  Temporaries,    // inside operators
  Other
};
inline constexpr unsigned kNumMemoryCategories = 9;
std::string_view getName(MemoryCategory category);

using MemoryBytes = std::array<int64_t, kNumMemoryCategories>; // by category
int64_t getTotal(const MemoryBytes &bytes);

enum class StepPart : uint8_t { Forward, Backward, Update };
std::string_view getName(StepPart part);

/// The display name of an operation of the problem.
struct OperationLabel {
  std::string name;   // "mm.default", "update"
  std::string module; // path; "" is the root
  StepPart part = StepPart::Forward;
  std::string costOrigin; // "measured", "roofline"
  /// An update or a pause: another schedule of the same step may have it at another position.
  bool isMovable = false;
  /// The operation's `liveBytes` by category.
  MemoryBytes liveBytes = {};
};

/// The display names and sizes of a problem's parts.
struct StepLabels {
  std::string model;
  std::vector<std::pair<std::string, std::string>> facts;           // "mesh": "dp = 8", in order
  std::vector<OperationLabel> operations;                           // by operation of the problem
  std::map<std::string, std::vector<std::string>> parameters;       // by group
  std::string gatherCostOrigin, reduceCostOrigin, acrossCostOrigin; // the last with replicas
  std::string costSources;                                          // of all costs together
};

/// "forward of layers.3.attention (mm.default)"
std::string describe(const OperationLabel &label);

enum class CollectiveKind : uint8_t { AllGather, ReduceScatter };
std::string_view getName(CollectiveKind kind); // "all_gather", "reduce_scatter"

/// One bucket of the plan.
struct CollectiveView {
  CollectiveKind kind = CollectiveKind::AllGather;
  uint32_t bucket = 0; // index into the plan's gathers or reductions
  bool byCopyEngine = false;
  std::vector<std::string> groups;
  /// The part of the operation that first needs the result.
  StepPart part = StepPart::Forward;
  int64_t sizeBytes = 0; // whole groups
  uint32_t launch = 0;   // position
  uint32_t wait = 0;     // position at which computation first waits for it
  double issueNs = 0;    // when the compute stream reaches the launch
  schedule::Interval interval;
  double exposedNs = 0; // time that computation waits for it
  /// Of a reduction with replicas: its all-reduce over the replicas, and the waits for that.
  std::optional<schedule::Interval> across;
  int64_t acrossBytes = 0;
  double exposedAcrossNs = 0;
  double durationNs() const { return interval.endNs - interval.startNs; }
  double hiddenNs() const { return std::max(0.0, durationNs() - exposedNs); }
};

/// Data on the host: the optimizer state of a group, fetched for its update and stored, or a
/// gradient or an activation, stored and fetched.
struct HostCopyView {
  std::string group; // or the module and the value
  int64_t sizeBytes = 0;
  uint32_t launch = 0, wait = 0; // positions of the fetch; the reader follows the wait
  std::optional<schedule::Interval> fetch; // nullopt: of a chunk, which its gather fetches
  schedule::Interval store = {};
  /// Time that computation waits for both copies. It is part of the operations' durations.
  double exposedNs = 0;
};

/// A decision of a pass that differs from the user's request (fsdp.group).
struct DecisionView {
  std::vector<std::string> groups; // consecutive groups with equal other fields
  std::string what;                // the attribute that holds the decision
  std::string asked, decided, why; // asked: "-" without a request
};

/// "layers.0 + layers.1"; for many the first and the last: "layers.0 ... layers.9 (10 groups)".
std::string joinNames(const std::vector<std::string> &names);

/// "all_gather layers.0 + layers.1"
std::string describe(const CollectiveView &collective);

/// Live bytes from `timeNs` to the next sample.
struct MemorySample {
  double timeNs = 0;
  MemoryBytes bytes = {};
};

struct ScheduleView {
  StepLabels labels;
  double makespanNs = 0;
  /// Time of the model's products at the device's peak, without recomputation.
  double modelPeakNs = 0;
  std::vector<schedule::Interval> operations;
  /// Gathers, then reductions, each in the order of their lane.
  std::vector<CollectiveView> collectives;
  std::vector<HostCopyView> hostCopies;   // in the order of the problem
  std::vector<PathSegment> criticalPath;  // empty for a measured step
  std::vector<DecisionView> decisions;    // by attribute, then by group
  std::vector<MemorySample> memory;       // by time
  size_t peakSample = 0;                  // the first with the largest sum
  /// Live bytes while each operation runs, all categories together.
  std::vector<int64_t> liveBytes;
  /// The most live bytes while the reductions of each position are launched; 0 without reductions.
  std::vector<int64_t> launchBytes;
  uint32_t peakOperation = 0; // during or before which the peak occurs
  std::optional<int64_t> memoryCapBytes;

  int64_t getPeakBytes() const { return memory.empty() ? 0 : getTotal(memory[peakSample].bytes); }
  double getComputeNs() const; // without waits for host copies
  /// The share of the device's peak that the model uses (MFU), from 0 to 1.
  double getUtilization() const { return makespanNs > 0 ? modelPeakNs / makespanNs : 0; }
  double getExposedNs(CollectiveKind kind) const;
  double getExposedAcrossNs() const;
  double getCollectiveNs() const; // of all lanes, including all-reduces over replicas
  double getExposedCopyNs() const;
  bool hasReplicas() const;
};

/// Bytes on the host, and the waits of computation for their copies, in words. Empty: none.
std::string describeHostCopies(const ScheduleView &view);

/// `timeline` must be that of `plan`; `labels` has one entry per operation. Linear.
ScheduleView buildView(const schedule::Problem &problem, const schedule::Plan &plan,
                       const schedule::Timeline &timeline, StepLabels labels);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_SCHEDULEVIEW_H
