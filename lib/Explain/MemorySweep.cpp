//===- MemorySweep.cpp - Live bytes at each position ----------------------===//

#include "MemorySweep.h"

using namespace fsdp::explain;
using namespace fsdp::schedule;

namespace {

/// The launches and waits at a position, in the order of Problem.h.
struct PositionEvents {
  int64_t releasedBytes = 0;         // of copies after their last use, of updated shards
  int64_t releasedGradientBytes = 0; // of gradients likewise
  int64_t readyBytes = 0;            // of complete gradients
  std::vector<uint32_t> waits;       // for reductions that were launched before
  std::vector<uint32_t> reductions;  // launched here
  int64_t gatheredBytes = 0;         // launched here
};

} // namespace

static int64_t &at(MemoryBytes &bytes, MemoryCategory category) {
  return bytes[static_cast<unsigned>(category)];
}

static std::vector<PositionEvents> collectEvents(const Problem &problem, const Plan &plan) {
  std::vector<PositionEvents> events(problem.operations.size() + 1);
  std::vector<int32_t> next = problem.nextUses();
  for (const GatherBucket &bucket : plan.gathers)
    for (uint32_t use : bucket.uses) {
      int64_t sizeBytes = problem.groups[problem.uses[use].group].gatheredBytes;
      events[bucket.launch].gatheredBytes += sizeBytes;
      uint32_t end = use;
      while (next[end] >= 0 && plan.kept[next[end]])
        end = next[end];
      events[problem.uses[end].last + 1].releasedBytes += sizeBytes;
    }
  for (uint32_t i = 0; i < plan.reductions.size(); ++i) {
    const ReductionBucket &bucket = plan.reductions[i];
    events[bucket.launch].reductions.push_back(i);
    if (bucket.wait > bucket.launch)
      events[bucket.wait].waits.push_back(i);
  }
  for (const Reduction &reduction : problem.reductions) {
    events[reduction.ready].readyBytes += reduction.inputBytes;
    events[reduction.update + 1].releasedGradientBytes += reduction.outputBytes;
  }
  return events;
}

/// The bytes that stay live between two operations, by category. Their sum is exact. If both
/// operations have more in common than stays live, short-lived categories are reduced first.
static MemoryBytes splitCarried(const MemoryBytes &before, const MemoryBytes &after,
                                int64_t carriedBytes) {
  MemoryBytes carried;
  for (unsigned i = 0; i < kNumMemoryCategories; ++i)
    carried[i] = std::min(before[i], after[i]);
  int64_t excess = getTotal(carried) - carriedBytes;
  static constexpr MemoryCategory shortLivedFirst[] = {
      MemoryCategory::Temporaries, MemoryCategory::Backward,  MemoryCategory::Other,
      MemoryCategory::Activations, MemoryCategory::Gradients, MemoryCategory::Inputs,
      MemoryCategory::Gathered,    MemoryCategory::Shards,    MemoryCategory::OptimizerState};
  for (MemoryCategory category : shortLivedFirst) {
    int64_t taken = std::min(std::max<int64_t>(excess, 0), at(carried, category));
    at(carried, category) -= taken;
    excess -= taken;
  }
  at(carried, MemoryCategory::Other) -= std::min<int64_t>(excess, 0);
  return carried;
}

/// The operation's own bytes; bytes that the label does not account for are `Other`.
static MemoryBytes getOwnBytes(const Operation &operation, const OperationLabel &label) {
  MemoryBytes bytes = label.liveBytes;
  at(bytes, MemoryCategory::Other) += operation.liveBytes - getTotal(bytes);
  return bytes;
}

static MemoryBytes plus(const MemoryBytes &own, int64_t gatheredBytes, int64_t gradientBytes) {
  MemoryBytes bytes = own;
  at(bytes, MemoryCategory::Gathered) += gatheredBytes;
  at(bytes, MemoryCategory::Gradients) += gradientBytes;
  return bytes;
}

void fsdp::explain::sweepMemory(const Problem &problem, const Plan &plan, ScheduleView &view) {
  std::vector<PositionEvents> events = collectEvents(problem, plan);
  size_t numOperations = problem.operations.size();
  view.liveBytes.reserve(numOperations);
  view.launchBytes.resize(numOperations);
  view.memory.reserve(numOperations);
  int64_t gatheredBytes = 0, gradientBytes = 0, peakBytes = -1;
  auto add = [&](double timeNs, const MemoryBytes &bytes, uint32_t operation) {
    if (getTotal(bytes) > peakBytes) {
      peakBytes = getTotal(bytes);
      view.peakOperation = operation;
      view.peakSample = view.memory.size(); // larger than all samples so far, so it is added
    }
    if (view.memory.empty() || view.memory.back().bytes != bytes)
      view.memory.push_back({timeNs, bytes});
  };
  auto inputBytesOf = [&](uint32_t bucket) {
    int64_t sum = 0;
    for (uint32_t member : plan.reductions[bucket].reductions)
      sum += problem.reductions[member].inputBytes;
    return sum;
  };
  auto outputBytesOf = [&](uint32_t bucket) {
    int64_t sum = 0;
    for (uint32_t member : plan.reductions[bucket].reductions)
      sum += problem.reductions[member].outputBytes;
    return sum;
  };
  MemoryBytes previous = {};
  for (uint32_t i = 0; i < numOperations; ++i) {
    const PositionEvents &here = events[i];
    double beforeNs = i == 0 ? 0 : view.operations[i - 1].endNs;
    MemoryBytes own = getOwnBytes(problem.operations[i], view.labels.operations[i]);
    MemoryBytes carried =
        splitCarried(i == 0 ? own : previous, own, problem.operations[i].carriedBytes);

    // The largest moment within the position represents it.
    MemoryBytes largest = {};
    auto reach = [&] {
      MemoryBytes bytes = plus(carried, gatheredBytes, gradientBytes);
      if (getTotal(bytes) > getTotal(largest))
        largest = bytes;
    };
    gatheredBytes -= here.releasedBytes;
    gradientBytes += here.readyBytes - here.releasedGradientBytes;
    // The awaited gradients are still live. They were live during the previous operation, too,
    // which counts for peaks.
    MemoryBytes waiting = plus(carried, gatheredBytes, gradientBytes);
    if (i > 0 && getTotal(waiting) <= view.liveBytes.back())
      largest = waiting;
    for (uint32_t bucket : here.waits)
      gradientBytes -= inputBytesOf(bucket);
    reach();
    for (uint32_t bucket : here.reductions) {
      gradientBytes += outputBytesOf(bucket);
      reach();
      int64_t bytes = getTotal(carried) + gatheredBytes + gradientBytes;
      view.launchBytes[i] = std::max(view.launchBytes[i], bytes);
      if (plan.reductions[bucket].wait == i)
        gradientBytes -= inputBytesOf(bucket);
    }
    gatheredBytes += here.gatheredBytes;
    reach();
    MemoryBytes live = plus(own, gatheredBytes, gradientBytes);
    bool stands = view.operations[i].startNs > beforeNs;
    if (stands || getTotal(largest) > getTotal(live))
      add(beforeNs, largest, i);
    add(view.operations[i].startNs, live, i);
    view.liveBytes.push_back(getTotal(live));
    previous = own;
  }
}
