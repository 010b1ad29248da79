//===- Streams.h - Time on the compute stream and on the lanes --*- C++ -*-===//
//
// Collectives of a lane run one after another in the order of their launch; those over replicas
// each behind its reduction as well. While both lanes are busy each is slower by the lane
// contention, and by what that with the lane over replicas adds; while any is, computation is
// slower by the compute contention, which is another one if nothing but copy engines runs. Every
// call advances time as far as it has to.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_STREAMS_H
#define FSDP_LIB_SCHEDULE_STREAMS_H

#include "fsdp/Schedule/Simulate.h"

#include <algorithm>
#include <limits>

namespace fsdp::schedule {

/// A collective: the lane it runs on and its number there.
struct Ticket {
  uint32_t lane = 0, number = 0;
};

class Streams {
public:
  explicit Streams(const Problem &problem)
      : laneContention(problem.laneContention), acrossContention(problem.acrossContention),
        computeContention(problem.computeContention),
        copyEngineContention(problem.copyEngineContention) {}

  /// The lane over replicas; those of gathers and reductions come before it.
  static constexpr uint32_t kAcross = 2;

  double getNow() const { return now; }
  bool hasEnded(Ticket ticket) const { return ticket.number < lanes[ticket.lane].numEnded; }
  /// Of a collective that has ended.
  Interval getInterval(Ticket ticket) const {
    return lanes[ticket.lane].collectives[ticket.number].interval;
  }

  Ticket launch(uint32_t index, double durationNs, bool byCopyEngine = false) {
    Lane &lane = lanes[index];
    Ticket ticket{index, uint32_t(lane.collectives.size())};
    lane.collectives.push_back({durationNs, {}, byCopyEngine});
    ++lane.numReleased;
    if (ticket.number == lane.numEnded)
      begin(index, now);
    else
      lane.queuedNs += durationNs;
    return ticket;
  }

  /// Over replicas, when what was launched last on the lane has ended.
  Ticket launchAcross(uint32_t behindLane, double durationNs) {
    Lane &lane = lanes[kAcross], &behind = lanes[behindLane];
    Ticket ticket{kAcross, uint32_t(lane.collectives.size())};
    lane.collectives.push_back({durationNs, {}});
    if (behind.isBusy()) {
      behind.collectives.back().goesOn = true;
      return ticket;
    }
    releaseAcross(now);
    return ticket;
  }

  void compute(double durationNs) {
    if (computeContention == 1 || nextEndNs == kNever) {
      now += durationNs;
      if (nextEndNs <= now)
        endUntil(now);
      return;
    }
    while (true) {
      const double slowdown = nextEndNs == kNever ? 1 : findComputeSlowdown();
      double endNs = now + durationNs * slowdown;
      if (endNs <= nextEndNs) {
        now = endNs;
        break;
      }
      durationNs = std::max(0.0, durationNs - (nextEndNs - now) / slowdown);
      now = nextEndNs;
      endUntil(now);
    }
    if (nextEndNs <= now)
      endUntil(now);
  }

  /// Computation stands still until the collective has ended.
  void waitFor(Ticket ticket) {
    while (!hasEnded(ticket))
      endUntil(nextEndNs);
    now = std::max(now, getInterval(ticket).endNs);
    if (nextEndNs <= now)
      endUntil(now);
  }

  /// Lets everything end that was launched; the time when all is done.
  double finish() {
    double endNs = now;
    while (nextEndNs != kNever) {
      endNs = std::max(endNs, nextEndNs);
      endUntil(nextEndNs);
    }
    return endNs;
  }

  /// When a collective that has not ended will have ended, if the other lane goes on as it is.
  double findEnd(Ticket ticket) const {
    const Lane &lane = lanes[ticket.lane];
    double endNs = lane.endNs;
    for (uint32_t i = lane.numEnded + 1; i <= ticket.number; ++i)
      endNs += lane.collectives[i].durationNs;
    return endNs;
  }

  /// When everything launched on the lane will have ended, if nothing else is launched; now or
  /// earlier, if it has.
  double findEndOfLane(uint32_t index) const {
    const Lane &lane = lanes[index], &other = lanes[1 - index];
    if (!lane.isBusy())
      return now;
    if (laneContention == 1 || !other.isBusy())
      return lane.endNs + lane.queuedNs;
    // Both at once for as long as the shorter one lasts.
    double ownNs = (lane.endNs - now) / laneContention + lane.queuedNs;
    double otherNs = (other.endNs - now) / laneContention + other.queuedNs;
    return now + ownNs + (laneContention - 1) * std::min(ownNs, otherNs);
  }

private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr uint32_t kNumLanes = 3;

  struct Collective {
    double durationNs;
    Interval interval;
    bool byCopyEngine = false;
    bool goesOn = false; // over replicas
  };
  struct Lane {
    std::vector<Collective> collectives;
    uint32_t numEnded = 0, numReleased = 0; // the latter may begin
    double endNs = kNever;                  // of the running one
    double queuedNs = 0;                    // of those behind it
    bool isBusy() const { return endNs != kNever; }
  };

  /// How much slower the lane is, by which others are busy.
  double findSlowdown(uint32_t index) const {
    if (index == kAcross)
      return 1 + (acrossContention - 1) * (lanes[0].isBusy() + lanes[1].isBusy());
    return (lanes[1 - index].isBusy() ? laneContention : 1) +
           (acrossContention - 1) * lanes[kAcross].isBusy();
  }

  /// How much slower computation is while a lane is busy.
  double findComputeSlowdown() const {
    const bool areKernelsBusy = lanes[1].isBusy() || lanes[kAcross].isBusy() ||
                                !lanes[0].collectives[lanes[0].numEnded].byCopyEngine;
    return areKernelsBusy ? computeContention : copyEngineContention;
  }

  /// The lane becomes busy until `endNs`, or idle; others go on at their new speeds.
  void setEnd(uint32_t index, double timeNs, double endNs) {
    bool isChange = lanes[index].isBusy() != (endNs != kNever);
    double before[kNumLanes] = {findSlowdown(0), findSlowdown(1), findSlowdown(2)};
    lanes[index].endNs = endNs;
    for (uint32_t i = 0; isChange && i < kNumLanes; ++i)
      if (Lane &lane = lanes[i]; i != index && lane.isBusy())
        if (double after = findSlowdown(i); after != before[i])
          lane.endNs = timeNs + (lane.endNs - timeNs) / before[i] * after;
    nextEndNs = std::min({lanes[0].endNs, lanes[1].endNs, lanes[2].endNs});
  }

  /// The next collective of the lane begins at `startNs`.
  void begin(uint32_t index, double startNs) {
    Collective &collective = lanes[index].collectives[lanes[index].numEnded];
    collective.interval.startNs = startNs;
    setEnd(index, startNs, startNs + collective.durationNs * findSlowdown(index));
  }

  void releaseAcross(double timeNs) {
    Lane &lane = lanes[kAcross];
    ++lane.numReleased;
    if (!lane.isBusy())
      begin(kAcross, timeNs);
  }

  /// What ends until then, ends.
  void endUntil(double timeNs) {
    while (nextEndNs <= timeNs && nextEndNs != kNever) {
      uint32_t index = 0;
      while (lanes[index].endNs != nextEndNs)
        ++index;
      Lane &lane = lanes[index];
      double endNs = lane.endNs;
      Collective &ended = lane.collectives[lane.numEnded++];
      ended.interval.endNs = endNs;
      if (lane.numEnded < lane.numReleased) {
        if (index != kAcross)
          lane.queuedNs -= lane.collectives[lane.numEnded].durationNs;
        begin(index, endNs);
      } else {
        lane.queuedNs = 0;
        setEnd(index, endNs, kNever);
      }
      if (ended.goesOn)
        releaseAcross(endNs);
    }
  }

  const double laneContention, acrossContention, computeContention, copyEngineContention;
  Lane lanes[kNumLanes];
  double now = 0, nextEndNs = kNever;
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_STREAMS_H
