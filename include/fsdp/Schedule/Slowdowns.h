//===- Slowdowns.h - Slowdown of concurrent work ----------------*- C++ -*-===//

#ifndef FSDP_SCHEDULE_SLOWDOWNS_H
#define FSDP_SCHEDULE_SLOWDOWNS_H

#include "fsdp/Schedule/Contention.h"

#include <algorithm>
#include <cstdint>

namespace fsdp::schedule {

enum class LaneState : uint8_t { Idle, Latency, Moving };
enum class CollectiveWork : uint8_t { Gather, CopyEngineGather, Reduction };
inline CollectiveWork gatherWork(bool byCopyEngine) {
  return byCopyEngine ? CollectiveWork::CopyEngineGather : CollectiveWork::Gather;
}

/// The work that runs at a moment. Lane 0 has gathers, and reductions if these share the lane. Lane
/// 1 has reductions otherwise. Lane kAcross has all-reduces over replicas.
struct Activity {
  static constexpr uint32_t kNumLanes = 3, kAcross = 2;
  LaneState lanes[kNumLanes] = {};
  CollectiveWork first = CollectiveWork::Gather; // on lane 0
  bool isComputing = false;

  bool isMoving(uint32_t lane) const { return lanes[lane] == LaneState::Moving; }
  bool isBusy(uint32_t lane) const { return lanes[lane] != LaneState::Idle; }
};

/// The factor by which a collective on `lane` moves its bytes more slowly than alone.
inline double slowdownOfBytes(const Contention &contention, const Activity &activity,
                              uint32_t lane) {
  double slowdown = 1;
  for (uint32_t other = 0; other < Activity::kNumLanes; ++other)
    if (other != lane && activity.isMoving(other))
      slowdown += (lane == Activity::kAcross || other == Activity::kAcross ? contention.replicas
                                                                           : contention.lanes) -
                  1;
  return activity.isComputing ? slowdown * contention.computation : slowdown;
}

/// The factor by which computation is slower than alone.
inline double slowdownOfComputation(const Contention &contention, const Activity &activity) {
  const bool isFirst = activity.isBusy(0);
  const bool byCopyEngine = isFirst && activity.first == CollectiveWork::CopyEngineGather;
  const int numByKernels = (isFirst && !byCopyEngine) + activity.isBusy(1) + activity.isBusy(2);
  if (numByKernels > 1)
    return contention.several;
  double slowdown = byCopyEngine ? contention.copyEngines : 1;
  if (numByKernels == 0)
    return slowdown;
  const bool isGather = isFirst && activity.first == CollectiveWork::Gather;
  return std::max(slowdown, isGather ? contention.gathers : contention.reductions);
}

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_SLOWDOWNS_H
