//===- StateCopySchedule.cpp - When optimizer state is copied -------------===//

#include "StateCopySchedule.h"

#include <algorithm>

using namespace mlir;
using namespace fsdp;

/// The bytes of what an update fetches.
static int64_t getStateBytes(const ScheduledStateCopy &copy, const StepMemory &memory) {
  int64_t bytes = 0;
  for (size_t range : memory.ranges.lookup(copy.ops.fetch))
    bytes += memory.ranges.getRanges()[range].bytes;
  return bytes;
}

/// One way: each part is a copy of its own.
static double getCopyNs(const ScheduledStateCopy &copy, const StepMemory &memory,
                        const cost::CostModel &costs) {
  double durationNs = 0;
  for (size_t range : memory.ranges.lookup(copy.ops.fetch))
    durationNs += costs.getHostCopyCost(memory.ranges.getRanges()[range].bytes).durationNs;
  return durationNs;
}

bool fsdp::isFetchedState(const LiveRange &range) {
  auto owner = dyn_cast<StepOpInterface>(range.owner);
  return owner && owner.getRole() == StepRole::FetchStart &&
         range.category != BufferCategory::ReducedShard;
}

void fsdp::addStateRanges(ScheduleProblem &step, const StepMemory &memory) {
  llvm::erase_if(step.ranges, [&](const OperationRange &range) {
    return isFetchedState(memory.ranges.getRanges()[range.range]);
  });
  for (const ScheduledStateCopy &copy : step.stateCopies) {
    if (copy.gradient)
      continue; // has the range of its fetch
    for (size_t range : memory.ranges.lookup(copy.ops.fetch))
      step.ranges.push_back({copy.fetchLaunch, copy.storeWait - 1, range});
  }
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

void fsdp::spreadStateCopies(ScheduleProblem &step, const StepMemory &memory,
                             const cost::CostModel &costs, ProblemBuilder &builder) {
  if (step.stateCopies.empty())
    return;
  ArrayRef<schedule::Operation> operations = step.problem.operations;
  std::vector<int64_t> liveBytes = step.problem.unavoidableBytes();
  int64_t limitBytes = INT64_MAX;
  if (step.problem.memoryCapBytes)
    limitBytes = std::max(*step.problem.memoryCapBytes, step.problem.minimumPeak().bytes);
  std::vector<ScheduledStateCopy> together = step.stateCopies;

  for (auto [index, copy] : llvm::enumerate(step.stateCopies)) {
    int64_t bytes = getStateBytes(copy, memory);
    double copyNs = getCopyNs(copy, memory, costs);
    auto take = [&](uint32_t operation) {
      if (bytes > limitBytes - liveBytes[operation])
        return false;
      liveBytes[operation] += bytes;
      return true;
    };
    // Two groups at most have their state in the arena.
    uint32_t earliest = index > 0 ? step.stateCopies[index - 1].fetchWait : 0;
    uint32_t latest = index + 1 < step.stateCopies.size() ? step.stateCopies[index + 1].fetchWait
                                                          : operations.size();
    for (double hiddenNs = 0;
         hiddenNs < copyNs && copy.fetchLaunch > earliest && take(copy.fetchLaunch - 1);)
      hiddenNs += operations[--copy.fetchLaunch].durationNs;
    for (double hiddenNs = 0; hiddenNs < copyNs && copy.storeWait < latest && take(copy.storeWait);)
      hiddenNs += operations[copy.storeWait++].durationNs;
  }
  addStateRanges(step, memory);
  builder.sumBytes();
  // Room at operations may not be room between them, where gradients are reduced.
  if (step.problem.minimumPeak().bytes > limitBytes) {
    step.stateCopies = std::move(together);
    addStateRanges(step, memory);
    builder.sumBytes();
  }
}

//===----------------------------------------------------------------------===//
// Durations
//===----------------------------------------------------------------------===//

std::vector<StateCopyEvent> fsdp::getEvents(ArrayRef<ScheduledStateCopy> copies) {
  std::vector<StateCopyEvent> events;
  for (auto [index, copy] : llvm::enumerate(copies)) {
    events.push_back({copy.storeLaunch, StateCopyEventKind::StoreStart, index});
    events.push_back({copy.storeWait, StateCopyEventKind::StoreWait, index});
    events.push_back({copy.fetchLaunch, StateCopyEventKind::FetchStart, index});
    events.push_back({copy.fetchWait, StateCopyEventKind::FetchWait, index});
  }
  std::ranges::stable_sort(events, {}, [](const StateCopyEvent &event) {
    return std::pair(event.position, event.kind);
  });
  return events;
}

void fsdp::chargeStateCopies(ScheduleProblem &step, const StepMemory &memory,
                             const cost::CostModel &costs) {
  std::vector<StateCopyEvent> events = getEvents(step.stateCopies);
  for (ScheduledStateCopy &copy : step.stateCopies) {
    if (copy.gradient) {
      copy.copyNs = costs.getHostCopyCost(copy.bytes).durationNs;
      continue;
    }
    copy.bytes = getStateBytes(copy, memory);
    copy.copyNs = getCopyNs(copy, memory, costs);
  }
  std::vector<double> fetchedNs(step.stateCopies.size()), storedNs(step.stateCopies.size());
  double nowNs = 0, fetchLinkNs = 0, storeLinkNs = 0; // when each link is free
  std::vector<schedule::Operation> &operations = step.problem.operations;
  auto next = events.begin();
  for (uint32_t position = 0; position <= operations.size(); ++position) {
    double waitNs = 0;
    auto waitUntil = [&](double endNs, ScheduledStateCopy &copy) {
      waitNs += std::max(0.0, endNs - nowNs);
      copy.exposedNs += std::max(0.0, endNs - nowNs);
      nowNs = std::max(nowNs, endNs);
    };
    for (; next != events.end() && next->position == position; ++next) {
      ScheduledStateCopy &copy = step.stateCopies[next->copy];
      double copyNs = copy.copyNs;
      switch (next->kind) {
      case StateCopyEventKind::StoreStart:
        storedNs[next->copy] = storeLinkNs = std::max(nowNs, storeLinkNs) + copyNs;
        break;
      case StateCopyEventKind::StoreWait:
        waitUntil(storedNs[next->copy], copy);
        break;
      case StateCopyEventKind::FetchStart:
        fetchedNs[next->copy] = fetchLinkNs = std::max(nowNs, fetchLinkNs) + copyNs;
        break;
      case StateCopyEventKind::FetchWait:
        waitUntil(fetchedNs[next->copy], copy);
        break;
      }
    }
    step.exposedCopyNs += waitNs;
    if (position < operations.size()) {
      nowNs += operations[position].durationNs;
      operations[position].durationNs += waitNs;
    } else if (waitNs > 0) {
      operations.back().durationNs += waitNs;
    }
  }
}
