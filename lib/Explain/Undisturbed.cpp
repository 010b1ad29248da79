//===- Undisturbed.cpp - Measured durations without contention ------------===//

#include "fsdp/Explain/Undisturbed.h"

#include "fsdp/Schedule/Slowdowns.h"

#include <algorithm>
#include <array>
#include <optional>

using namespace fsdp::explain;
using namespace fsdp::schedule;

namespace {

/// Goes through the events of a step and adds up the work that is done between them.
class Sweep {
public:
  Sweep(const Contention &contention, std::span<const Interval> operations,
        std::span<const RunCollective> collectives);

  UndisturbedStep run();

private:
  // In the order in which events of one time happen.
  enum class Event : uint8_t { EndOperation, EndCollective, StartCollective, Move, StartOperation };
  struct TimedEvent {
    double timeNs;
    Event event;
    size_t index; // of the operation or collective
  };

  uint32_t laneOf(size_t collective) const;
  void addWork(double ns);
  void happen(const TimedEvent &event);

  const Contention contention;
  std::span<const RunCollective> collectives;
  std::vector<TimedEvent> events;
  UndisturbedStep step;
  Activity activity;
  std::optional<size_t> operation; // that runs
  std::array<std::optional<size_t>, Activity::kNumLanes> onLane;
};

} // namespace

Sweep::Sweep(const Contention &contention, std::span<const Interval> operations,
             std::span<const RunCollective> collectives)
    : contention(contention), collectives(collectives) {
  step.operations.resize(operations.size());
  step.collectives.resize(collectives.size());
  for (size_t i = 0; i < operations.size(); ++i) {
    const auto [startNs, endNs] = operations[i];
    step.operations[i].measuredNs = endNs - startNs;
    if (endNs <= startNs)
      continue;
    events.push_back({startNs, Event::StartOperation, i});
    events.push_back({endNs, Event::EndOperation, i});
  }
  for (size_t i = 0; i < collectives.size(); ++i) {
    const auto [startNs, endNs] = collectives[i].interval;
    step.collectives[i].measuredNs = endNs - startNs;
    if (endNs <= startNs)
      continue;
    events.push_back({startNs, Event::StartCollective, i});
    events.push_back({std::min(startNs + collectives[i].latencyNs, endNs), Event::Move, i});
    events.push_back({endNs, Event::EndCollective, i});
  }
  std::ranges::stable_sort(
      events, {}, [](const TimedEvent &event) { return std::pair(event.timeNs, event.event); });
}

/// Lanes of their own make no difference for gathers and reductions that shared one.
uint32_t Sweep::laneOf(size_t collective) const {
  switch (collectives[collective].kind) {
  case RunCollective::Kind::Gather:
  case RunCollective::Kind::CopyEngineGather:
    return 0;
  case RunCollective::Kind::Reduction:
    return 1;
  case RunCollective::Kind::Across:
    return Activity::kAcross;
  }
  return 0;
}

void Sweep::addWork(double ns) {
  const auto numCollectives = std::ranges::count_if(
      onLane, [](const std::optional<size_t> &running) { return running.has_value(); });
  if (operation) {
    Undisturbed &own = step.operations[*operation];
    own.ns += ns / slowdownOfComputation(contention, activity);
    own.besideNs += numCollectives > 0 ? ns : 0;
  }
  for (uint32_t lane = 0; lane < Activity::kNumLanes; ++lane) {
    if (!onLane[lane])
      continue;
    Undisturbed &own = step.collectives[*onLane[lane]];
    own.ns += activity.isMoving(lane) ? ns / slowdownOfBytes(contention, activity, lane) : ns;
    own.besideNs += operation || numCollectives > 1 ? ns : 0;
  }
}

void Sweep::happen(const TimedEvent &event) {
  switch (event.event) {
  case Event::StartOperation:
    operation = event.index;
    activity.isComputing = true;
    return;
  case Event::EndOperation:
    if (operation == event.index) {
      operation.reset();
      activity.isComputing = false;
    }
    return;
  case Event::StartCollective: {
    const uint32_t lane = laneOf(event.index);
    onLane[lane] = event.index;
    activity.lanes[lane] = LaneState::Latency;
    if (lane == 0)
      activity.first =
          gatherWork(collectives[event.index].kind == RunCollective::Kind::CopyEngineGather);
    return;
  }
  case Event::Move:
    if (const uint32_t lane = laneOf(event.index); onLane[lane] == event.index)
      activity.lanes[lane] = LaneState::Moving;
    return;
  case Event::EndCollective:
    if (const uint32_t lane = laneOf(event.index); onLane[lane] == event.index) {
      onLane[lane].reset();
      activity.lanes[lane] = LaneState::Idle;
    }
  }
}

UndisturbedStep Sweep::run() {
  double nowNs = 0;
  for (const TimedEvent &event : events) {
    addWork(event.timeNs - nowNs);
    nowNs = event.timeNs;
    happen(event);
  }
  return std::move(step);
}

UndisturbedStep fsdp::explain::removeContention(const Contention &contention,
                                                std::span<const Interval> operations,
                                                std::span<const RunCollective> collectives) {
  return Sweep(contention, operations, collectives).run();
}
