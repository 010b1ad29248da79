//===- ScheduleView.h - A simulated step, as people look at it ---*- C++ -*-===//
//
// The common input of trace, page and text: when each operation and collective runs on which lane,
// and which bytes are live. Built from a problem, a plan and its timeline; it does not know the IR.
// Times are nanoseconds from the beginning of the step, sizes bytes.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EXPLAIN_SCHEDULEVIEW_H
#define FSDP_EXPLAIN_SCHEDULEVIEW_H

#include "fsdp/Schedule/Simulate.h"

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
  Activations,    // made by the forward
  Backward,       // made by the backward, gradients of parameters aside
  Gradients,      // of parameters: being written, waiting to be reduced, reduced
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

/// An operation of the problem, for people.
struct OperationLabel {
  std::string name;   // "mm.default", "update"
  std::string module; // path; "" is the root
  StepPart part = StepPart::Forward;
  std::string costOrigin; // "measured", "roofline"
  /// An update or a pause: the same step may have it elsewhere under another schedule.
  bool isMovable = false;
  /// The operation's `liveBytes` by category.
  MemoryBytes liveBytes = {};
};

/// Names and sizes of a problem's parts, for people.
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
  /// Of the operation that first needs the result.
  StepPart part = StepPart::Forward;
  int64_t sizeBytes = 0; // whole groups
  uint32_t launch = 0;   // position
  uint32_t wait = 0;     // position at which computation first waits for it
  double issueNs = 0;    // when the compute stream reaches the launch
  schedule::Interval interval;
  double exposedNs = 0; // how long computation stood still for it
  /// Of a reduction with replicas: its way over these, and what computation waits for that.
  std::optional<schedule::Interval> across;
  int64_t acrossBytes = 0;
  double exposedAcrossNs = 0;
  double durationNs() const { return interval.endNs - interval.startNs; }
  double hiddenNs() const { return std::max(0.0, durationNs() - exposedNs); }
};

/// What lies on the host: the optimizer state of a group, with its way to its update and back, or a
/// gradient or an activation, with its way there and back.
struct HostCopyView {
  std::string group; // or the module, and what of it
  int64_t sizeBytes = 0;
  uint32_t launch = 0, wait = 0; // positions of the fetch; its reader follows its wait
  schedule::Interval fetch, store;
  /// How long computation waits for both copies. This time is part of its operations' durations.
  double exposedNs = 0;
};

/// What a pass decided of groups where the user did not ask for just that (fsdp.group).
struct DecisionView {
  std::vector<std::string> groups; // neighbours of which all the rest is equal
  std::string what;                // the attribute in which it was decided
  std::string asked, decided, why; // asked: "-" where nothing was
};

/// "layers.0 + layers.1"; of many the first and the last: "layers.0 ... layers.9 (10 groups)".
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
  /// What the model's products take at the device's peak, what is computed again not counted.
  double modelPeakNs = 0;
  std::vector<schedule::Interval> operations;
  /// Gathers, then reductions, each in the order of their lane.
  std::vector<CollectiveView> collectives;
  std::vector<HostCopyView> hostCopies;   // in the order of the problem
  std::vector<DecisionView> decisions;    // by attribute, then by group
  std::vector<MemorySample> memory;       // by time
  size_t peakSample = 0;                  // the first of the largest
  /// While each operation runs, all categories together.
  std::vector<int64_t> liveBytes;
  /// The most while the reductions of each position are launched; 0: none is.
  std::vector<int64_t> launchBytes;
  uint32_t peakOperation = 0; // at which, or before which, the peak occurs
  std::optional<int64_t> memoryCapBytes;

  int64_t getPeakBytes() const { return memory.empty() ? 0 : getTotal(memory[peakSample].bytes); }
  double getComputeNs() const; // without waits for copies from the host
  /// The share of the device's peak that the model uses (MFU), of 1.
  double getUtilization() const { return makespanNs > 0 ? modelPeakNs / makespanNs : 0; }
  double getExposedNs(CollectiveKind kind) const;
  double getExposedAcrossNs() const;
  double getCollectiveNs() const; // of all lanes, that over replicas among them
  double getExposedCopyNs() const;
  bool hasReplicas() const;
};

/// Bytes on the host, and how long computation waits for their copies, for people. Empty: none.
std::string describeHostCopies(const ScheduleView &view);

/// The timeline is the plan's; labels have one entry per operation. Linear.
ScheduleView buildView(const schedule::Problem &problem, const schedule::Plan &plan,
                       const schedule::Timeline &timeline, StepLabels labels);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_SCHEDULEVIEW_H
