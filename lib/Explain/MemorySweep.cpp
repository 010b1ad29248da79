//===- MemorySweep.cpp - Live bytes at each position ----------------------===//

#include "MemorySweep.h"

#include "fsdp/Schedule/HeldBytes.h"

using namespace fsdp::explain;
using namespace fsdp::schedule;

static int64_t &at(MemoryBytes &bytes, MemoryCategory category) {
  return bytes[static_cast<unsigned>(category)];
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

static MemoryBytes plus(const MemoryBytes &own, const HeldBytes &held) {
  MemoryBytes bytes = own;
  at(bytes, MemoryCategory::Gathered) += held.gathered;
  at(bytes, MemoryCategory::Gradients) += held.gradients;
  return bytes;
}

namespace {

/// Turns the moments of walkHeldBytes into samples.
class MemorySweep {
public:
  MemorySweep(const Problem &problem, ScheduleView &view) : problem(problem), view(view) {
    view.liveBytes.reserve(problem.operations.size());
    view.launchBytes.resize(problem.operations.size());
    view.memory.reserve(problem.operations.size());
  }

  void operator()(HeldAt moment, uint32_t position, const HeldBytes &held) {
    switch (moment) {
    case HeldAt::Arrival:
      return arrive(position, held);
    case HeldAt::Launch:
      reach(held);
      view.launchBytes[position] =
          std::max(view.launchBytes[position], getTotal(carried) + held.total());
      return;
    case HeldAt::Operation:
      reach(held); // after launches of gathers
      return run(position, held);
    }
  }

private:
  void arrive(uint32_t position, const HeldBytes &held) {
    MemoryBytes before = own;
    own = getOwnBytes(problem.operations[position], view.labels.operations[position]);
    carried =
        splitCarried(position == 0 ? own : before, own, problem.operations[position].carriedBytes);
    // Awaited gradients are still live. They were live during the previous operation, too, which
    // counts for peaks.
    MemoryBytes waiting = plus(carried, held);
    largest = {};
    if (position > 0 && getTotal(waiting) <= view.liveBytes.back())
      largest = waiting;
  }

  /// The largest moment within the position represents it.
  void reach(const HeldBytes &held) {
    MemoryBytes bytes = plus(carried, held);
    if (getTotal(bytes) > getTotal(largest))
      largest = bytes;
  }

  void run(uint32_t operation, const HeldBytes &held) {
    const double beforeNs = operation == 0 ? 0 : view.operations[operation - 1].endNs;
    const double startNs = view.operations[operation].startNs;
    MemoryBytes live = plus(own, held);
    if (startNs > beforeNs || getTotal(largest) > getTotal(live))
      add(beforeNs, largest, operation);
    add(startNs, live, operation);
    view.liveBytes.push_back(getTotal(live));
  }

  void add(double timeNs, const MemoryBytes &bytes, uint32_t operation) {
    if (getTotal(bytes) > peakBytes) {
      peakBytes = getTotal(bytes);
      view.peakOperation = operation;
      view.peakSample = view.memory.size(); // larger than all samples so far, so it is added
    }
    if (view.memory.empty() || view.memory.back().bytes != bytes)
      view.memory.push_back({timeNs, bytes});
  }

  const Problem &problem;
  ScheduleView &view;
  MemoryBytes own = {}, carried = {}, largest = {}; // of the position
  int64_t peakBytes = -1;
};

} // namespace

void fsdp::explain::sweepMemory(const Problem &problem, const Plan &plan, ScheduleView &view) {
  walkHeldBytes(problem, plan, MemorySweep(problem, view));
}
