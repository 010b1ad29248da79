//===- InfeasibleCap.cpp - Errors of caps that are too small --------------===//

#include "fsdp/Transforms/InfeasibleCap.h"

#include "fsdp/Transforms/CapRefusal.h"
#include "llvm/ADT/TypeSwitch.h"

#include <array>
#include <map>

using namespace mlir;
using namespace fsdp;

//===----------------------------------------------------------------------===//
// Live buffers
//===----------------------------------------------------------------------===//

namespace {

/// Buffers of one category and one module, or of one category and all groups.
struct LiveItem {
  std::string name;
  int64_t bytes;
};

struct LiveThere {
  std::vector<LiveItem> items; // by decreasing size
  std::array<int64_t, kNumBufferCategories> bytes = {};

  int64_t of(BufferCategory category) const { return bytes[static_cast<size_t>(category)]; }
};

} // namespace

static std::string nameModule(aten::ScopeAttr scope) {
  StringRef module = scope.getModule().getValue();
  return module.empty() ? "the root module" : "module '" + module.str() + "'";
}

static std::string nameItem(const LiveRange &range) {
  std::string category = stringifyBufferCategory(range.category).str();
  switch (range.category) {
  case BufferCategory::Shard:
  case BufferCategory::OptimizerState:
    return category + " of all groups";
  case BufferCategory::Buffer:
  case BufferCategory::Constant:
    return category + " of the model";
  case BufferCategory::Input:
    if (auto input = dyn_cast<InputOp>(range.owner))
      return category + " '" + input.getName().str() + "'";
    return "the loss scale";
  case BufferCategory::Activation:
    return llvm::TypeSwitch<Operation *, std::string>(range.owner)
        .Case<aten::CallOp, LaunchOp>(
            [&](auto op) { return category + " of " + nameModule(op.getScope()); })
        .Default([](Operation *op) { return "the " + cast<StepOpInterface>(op).getTitle(); });
  case BufferCategory::Chunk:
  case BufferCategory::EncodedShard:
  case BufferCategory::Gathered:
  case BufferCategory::Gradient:
  case BufferCategory::ReducedShard:
    break;
  }
  return category + " of @" + getGroupOf(range.owner).getValue().str();
}

/// The buffers that are live during `operation` if every collective runs where its result is
/// needed.
static LiveThere findLive(const StepMemory &memory, const ScheduleProblem &step,
                          uint32_t operation) {
  std::map<std::string, int64_t> bytesOf;
  LiveThere live;
  auto add = [&](const LiveRange &range, bool isFreed = false) {
    int64_t bytes = isFreed ? -range.bytes : range.bytes;
    bytesOf[nameItem(range)] += bytes;
    live.bytes[static_cast<size_t>(range.category)] += bytes;
  };
  ArrayRef<LiveRange> ranges = memory.ranges.getRanges();
  for (const OperationRange &part : step.ranges)
    if (part.first <= operation && operation <= part.last)
      add(ranges[part.range], part.isFreed);
  for (auto [use, start] : llvm::zip_equal(step.problem.uses, step.gathers))
    if (use.first <= operation && operation <= use.last)
      add(ranges[memory.ranges.lookup(start).front()]);
  for (auto [reduction, start] : llvm::zip_equal(step.problem.reductions, step.reductions)) {
    if (reduction.ready > operation || operation > reduction.update)
      continue;
    add(ranges[memory.ranges.lookup(start).back()]);
    if (reduction.ready == operation)
      for (size_t part : memory.ranges.lookup(start).drop_back())
        add(ranges[part]);
  }
  for (auto &[name, bytes] : bytesOf)
    live.items.push_back({name, bytes});
  llvm::stable_sort(live.items,
                    [](const LiveItem &a, const LiveItem &b) { return a.bytes > b.bytes; });
  return live;
}

//===----------------------------------------------------------------------===//
// Suggestions
//===----------------------------------------------------------------------===//

static std::string describePlace(Operation *op) {
  auto describeIn = [](const std::string &name, auto op) {
    return name + " in " + (op.getPhase() == aten::Phase::Forward ? "forward" : "backward") +
           " of " + nameModule(op.getScope());
  };
  return llvm::TypeSwitch<Operation *, std::string>(op)
      .Case([&](aten::CallOp call) { return describeIn("'" + call.getCallee().str() + "'", call); })
      .Case([&](LaunchOp launch) { return describeIn(launch.getTitle(), launch); })
      .Default([](Operation *other) { return "the " + describe(other); });
}

/// Adds a note for each change of the step that would lower the peak.
static void suggestChanges(const StepMemory &memory, const CapLimits &limits, int64_t peakBytes,
                           FindLeastPeak findLeastPeak, InFlightDiagnostic &diag) {
  if (!findLeastPeak)
    return;
  auto suggest = [&](std::optional<int64_t> bytes, const Twine &change) {
    if (bytes && *bytes < peakBytes)
      diag.attachNote() << change << ": at least " << *bytes << " bytes"
                        << (*bytes <= limits.capBytes ? ", which fits" : "");
  };
  int64_t leastBytes = peakBytes;
  for (auto [policy, option] : {std::pair(RecomputePolicy::Cheap, "recompute=cheap"),
                                std::pair(RecomputePolicy::Selected, "recompute=selected"),
                                std::pair(RecomputePolicy::Full, "recompute=full")}) {
    std::optional<int64_t> bytes = findLeastPeak({.recompute = policy});
    if (!bytes || *bytes >= leastBytes)
      continue;
    suggest(bytes, option);
    leastBytes = *bytes;
  }
  suggest(findLeastPeak({.offload = {.optimizer = OffloadPolicy::All}}), "offload-optimizer=all");
  suggest(findLeastPeak({.offload = {.activations = OffloadPolicy::All}}),
          "offload-activations=all");
  suggest(findLeastPeak({.fusion = FusionChoice::Off}), "fusion=off");
  // Every group's mesh has all ranks.
  const GroupInfo &group = memory.groups.getGroups().front();
  const unsigned ranks = group.replicas * group.getShards();
  suggest(findLeastPeak({.shardFactor = 2}),
          "with " + Twine(2 * ranks) + " ranks instead of " + Twine(ranks));
}

void fsdp::reportInfeasibleCap(ModuleOp module, const StepMemory &memory,
                               const ScheduleProblem &problem, const CapLimits &limits,
                               FindLeastPeak findLeastPeak) {
  constexpr size_t kMaxItems = 10;
  schedule::Problem::MinimumPeak peak = problem.problem.minimumPeak();
  Operation *place = problem.lookup(peak.operation);
  LiveThere live = findLive(memory, problem, peak.operation);
  InFlightDiagnostic diag = module.emitError("no schedule fits the memory cap of ")
                            << limits.capBytes + limits.scratchBytes << " bytes: at least "
                            << peak.bytes << " bytes are live at once, at " << describePlace(place);
  CapRefusal refusal{.leastBytes = peak.bytes + limits.scratchBytes, .place = describePlace(place)};
  if (limits.placedBytes) {
    refusal.enoughBytes = *limits.placedBytes + limits.scratchBytes;
    diag << "; a cap of " << *refusal.enoughBytes << " bytes is enough";
  }
  attachRefusal(*diag.getUnderlyingDiagnostic(), refusal);
  if (limits.scratchBytes > 0)
    diag.attachNote() << limits.scratchBytes
                      << " bytes more are temporaries inside operators, which leaves "
                      << std::max<int64_t>(0, limits.capBytes) << " of the cap";
  diag.attachNote(place->getLoc())
      << "live there, the largest " << std::min(kMaxItems, live.items.size()) << " of "
      << live.items.size() << ':';
  for (const LiveItem &item : ArrayRef(live.items).take_front(kMaxItems))
    diag.attachNote(place->getLoc()) << "  " << item.bytes << " bytes: " << item.name;
  suggestChanges(memory, limits, peak.bytes, findLeastPeak, diag);
  int64_t activations = live.of(BufferCategory::Activation) + live.of(BufferCategory::Input);
  diag.attachNote() << "a smaller batch: activations and inputs hold " << activations << " of the "
                    << peak.bytes << " bytes";
}
