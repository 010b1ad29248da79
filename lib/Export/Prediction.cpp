//===- Prediction.cpp - Predicted time and memory in reports --------------===//

#include "Prediction.h"

#include "fsdp/CostModel/Temporaries.h"
#include "fsdp/Plan/ArenaPlanner.h"
#include "fsdp/Schedule/LowerBound.h"
#include "fsdp/Schedule/Simulate.h"

#include <array>
#include <cmath>

using namespace mlir;
using namespace fsdp;
namespace json = llvm::json;

namespace {

/// Whole nanoseconds: the precision of the cost model.
int64_t toNs(double ns) { return std::llround(ns); }

class PredictionWriter {
public:
  PredictionWriter(const StepMemory &memory, const ScheduledStep &step, json::OStream &out)
      : memory(memory), step(step), out(out),
        timeline(schedule::simulate(step.problem, step.plan)) {}

  void writeTimes(const schedule::LowerBound &bound);
  void writeJitter();
  void writeDeviceMemory(const cost::Temporaries &temporaries);
  void writeLaunches();
  void writePeak();
  void writeMemory();

private:
  void writeLaunch(StringRef kind, ArrayRef<uint32_t> members, const schedule::Interval &interval,
                   double exposedNs);
  void writeList(StringRef name, ArrayRef<int64_t> numbers);
  const std::string &nameGroup(StringRef kind, uint32_t member) const {
    uint32_t group = kind == "all_gather" ? step.problem.uses[member].group
                                          : step.problem.reductions[member].group;
    return step.problem.groups[group].name;
  }

  const StepMemory &memory;
  const ScheduledStep &step;
  json::OStream &out;
  const schedule::Timeline timeline;
};

} // namespace

void PredictionWriter::writeTimes(const schedule::LowerBound &bound) {
  // Waits for host copies are part of the operations' durations.
  double computeNs = -step.exposedCopyNs, exposedNs = step.exposedCopyNs;
  for (const schedule::Operation &operation : step.problem.operations)
    computeNs += operation.durationNs;
  for (double ns : timeline.exposedGatherNs)
    exposedNs += ns;
  for (double ns : timeline.exposedReductionNs)
    exposedNs += ns;
  for (double ns : timeline.exposedAcrossNs)
    exposedNs += ns;
  out.attribute("step_ns", toNs(timeline.makespanNs));
  out.attribute("compute_ns", toNs(computeNs));
  out.attribute("exposed_ns", toNs(exposedNs));
  if (!step.hostCopies.empty())
    out.attribute("exposed_host_copies_ns", toNs(step.exposedCopyNs));
  out.attribute("bound_ns", toNs(bound.makespanNs));
  out.attribute("bound_kind", StringRef(schedule::getName(bound.kind)));
  out.attribute("ratio", bound.makespanNs > 0 ? timeline.makespanNs / bound.makespanNs : 1.0);
}

void PredictionWriter::writeJitter() {
  std::optional<schedule::Jitter> jitter = step.getJitter();
  if (!jitter)
    return;
  schedule::JitteredMakespan makespan = schedule::simulate(step.problem, step.plan, *jitter);
  out.attributeObject("jitter", [&] {
    out.attribute("mean_ns", toNs(makespan.meanNs));
    out.attribute("percentile95_ns", toNs(makespan.percentile95Ns));
    out.attribute("draws", jitter->samples);
    out.attribute("seed", jitter->seed);
    out.attribute("ranks", jitter->ranks);
    out.attribute("compute_spread", jitter->computeSpread);
    out.attribute("network_spread", jitter->networkSpread);
  });
}

void PredictionWriter::writeDeviceMemory(const cost::Temporaries &temporaries) {
  int64_t arenaBytes = planArena(memory.ranges.getRanges()).arenaBytes;
  out.attribute("arena_bytes", arenaBytes);
  out.attributeObject("temporaries", [&] {
    out.attribute("scratch_bytes", temporaries.scratchBytes);
    out.attribute("known", temporaries.areKnown());
    out.attribute("source", temporaries.describe());
  });
  out.attribute("device_bytes", arenaBytes + temporaries.scratchBytes);
}

void PredictionWriter::writeLaunch(StringRef kind, ArrayRef<uint32_t> members,
                                   const schedule::Interval &interval, double exposedNs) {
  out.object([&] {
    out.attribute("kind", kind);
    out.attributeArray("groups", [&] {
      for (uint32_t member : members)
        out.value(nameGroup(kind, member));
    });
    out.attribute("start_ns", toNs(interval.startNs));
    out.attribute("end_ns", toNs(interval.endNs));
    out.attribute("exposed_ns", toNs(exposedNs));
  });
}

void PredictionWriter::writeLaunches() {
  const schedule::Plan &plan = step.plan;
  out.attributeArray("launches", [&] {
    for (size_t i = 0; i < plan.gathers.size(); ++i)
      writeLaunch("all_gather", plan.gathers[i].uses, timeline.gathers[i],
                  timeline.exposedGatherNs[i]);
    for (size_t i = 0; i < plan.reductions.size(); ++i)
      writeLaunch("reduce_scatter", plan.reductions[i].reductions, timeline.reductions[i],
                  timeline.exposedReductionNs[i]);
    for (size_t i = 0; i < plan.reductions.size(); ++i)
      if (timeline.across[i])
        writeLaunch("all_reduce", plan.reductions[i].reductions, *timeline.across[i],
                    timeline.exposedAcrossNs[i]);
  });
}

void PredictionWriter::writePeak() {
  schedule::Peak peak = schedule::peakOf(step.problem, step.plan);
  out.attribute("peak_bytes", peak.bytes);
  uint32_t index = peak.operation;
  while (index < step.operations.size() && !step.operations[index])
    ++index;
  if (index == step.operations.size())
    return;
  Operation *op = step.operations[index];
  out.attributeObject("peak_at", [&] {
    out.attribute("operation", index);
    if (auto call = dyn_cast<aten::CallOp>(op)) {
      out.attribute("callee", call.getCallee());
      out.attribute("module", call.getModule());
      out.attribute("phase", call.getPhase() == aten::Phase::Forward ? "forward" : "backward");
    } else {
      out.attribute("callee", op->getName().getStringRef());
    }
  });
}

void PredictionWriter::writeList(StringRef name, ArrayRef<int64_t> numbers) {
  out.attributeBegin(name);
  out.rawValue([&](raw_ostream &os) {
    os << '[';
    llvm::interleave(numbers, os, ", ");
    os << ']';
  });
  out.attributeEnd();
}

/// Writes live bytes at each change: at operations, and at the starts of reductions, whose input
/// and output are live together.
void PredictionWriter::writeMemory() {
  using Bytes = std::array<int64_t, kNumBufferCategories>;
  int64_t numPositions = memory.ranges.getNumPositions();
  std::vector<Bytes> change(numPositions + 1);
  for (const LiveRange &range : memory.ranges.getRanges()) {
    size_t category = static_cast<size_t>(range.category);
    change[range.first][category] += range.bytes;
    change[range.last + 1][category] -= range.bytes;
  }
  DenseMap<Operation *, uint32_t> indexOf;
  for (auto [index, op] : llvm::enumerate(step.operations))
    if (op)
      indexOf[op] = index;

  std::vector<int64_t> times;
  std::array<std::vector<int64_t>, kNumBufferCategories> columns;
  Bytes live = {};
  int64_t position = 0;
  double nowNs = 0; // the beginning of the operation after this position
  for (Operation &op : memory.getBody()) {
    for (size_t category = 0; category < live.size(); ++category)
      live[category] += change[position][category];
    ++position;
    auto found = indexOf.find(&op);
    if (found != indexOf.end())
      nowNs = timeline.operations[found->second].startNs;
    else if (!isa<ReduceScatterStartOp>(op))
      continue;
    bool isSame = !times.empty();
    for (size_t category = 0; isSame && category < live.size(); ++category)
      isSame = columns[category].back() == live[category];
    if (!isSame) {
      times.push_back(toNs(nowNs));
      for (size_t category = 0; category < live.size(); ++category)
        columns[category].push_back(live[category]);
    }
    if (found != indexOf.end())
      nowNs = timeline.operations[found->second].endNs;
  }
  out.attributeObject("memory", [&] {
    writeList("time_ns", times);
    out.attributeObject("bytes", [&] {
      for (size_t category = 0; category < columns.size(); ++category)
        writeList(stringifyBufferCategory(static_cast<BufferCategory>(category)),
                  columns[category]);
    });
  });
}

LogicalResult fsdp::writePrediction(ModuleOp module, const StepMemory &memory,
                                    const cost::CostModel &costs,
                                    std::optional<int64_t> memoryCapBytes, json::OStream &out) {
  FailureOr<ScheduledStep> step = getScheduledStep(module, memory, costs);
  if (failed(step))
    return failure();
  // With a cap the bound is for schedules under the cap, if this schedule respects it.
  if (memoryCapBytes && schedule::peakOf(step->problem, step->plan).bytes <= *memoryCapBytes)
    step->problem.memoryCapBytes = memoryCapBytes;
  PredictionWriter writer(memory, *step, out);
  writer.writeTimes(findBound(*step, schedule::makespanNs(step->problem, step->plan)));
  writer.writeJitter();
  writer.writePeak();
  writer.writeDeviceMemory(cost::findTemporaries(module, costs));
  writer.writeLaunches();
  writer.writeMemory();
  out.attribute("costs", costs.describeSources());
  return success();
}
