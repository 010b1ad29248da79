//===- Streams.h - Time on the compute stream and on two lanes --*- C++ -*-===//
//
// Collectives of a lane run one after another in the order of their launch. While both lanes are
// busy each is slower by the lane contention; while any is, computation is slower by the compute
// contention. Every call advances time as far as it has to.
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
      : laneContention(problem.laneContention), computeContention(problem.computeContention) {}

  double getNow() const { return now; }
  bool hasEnded(Ticket ticket) const { return ticket.number < lanes[ticket.lane].numEnded; }
  /// Of a collective that has ended.
  Interval getInterval(Ticket ticket) const {
    return lanes[ticket.lane].collectives[ticket.number].interval;
  }

  Ticket launch(uint32_t index, double durationNs) {
    Lane &lane = lanes[index];
    Ticket ticket{index, uint32_t(lane.collectives.size())};
    lane.collectives.push_back({durationNs, {}});
    if (ticket.number == lane.numEnded) {
      if (Lane &other = lanes[1 - index]; other.isBusy())
        other.endNs = now + (other.endNs - now) * laneContention;
      begin(index, now);
    } else {
      lane.queuedNs += durationNs;
    }
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
      double endNs = now + durationNs * (nextEndNs == kNever ? 1 : computeContention);
      if (endNs <= nextEndNs) {
        now = endNs;
        break;
      }
      durationNs = std::max(0.0, durationNs - (nextEndNs - now) / computeContention);
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

  struct Collective {
    double durationNs;
    Interval interval;
  };
  struct Lane {
    std::vector<Collective> collectives;
    uint32_t numEnded = 0;
    double endNs = kNever; // of the running one
    double queuedNs = 0;   // of those behind it
    bool isBusy() const { return endNs != kNever; }
  };

  /// The next collective of the lane begins at `startNs`.
  void begin(uint32_t index, double startNs) {
    Lane &lane = lanes[index];
    Collective &collective = lane.collectives[lane.numEnded];
    collective.interval.startNs = startNs;
    lane.endNs = startNs + collective.durationNs * (lanes[1 - index].isBusy() ? laneContention : 1);
    nextEndNs = std::min(lanes[0].endNs, lanes[1].endNs);
  }

  /// What ends until then, ends.
  void endUntil(double timeNs) {
    while (nextEndNs <= timeNs && nextEndNs != kNever) {
      uint32_t index = lanes[1].endNs < lanes[0].endNs;
      Lane &lane = lanes[index], &other = lanes[1 - index];
      double endNs = lane.endNs;
      lane.collectives[lane.numEnded++].interval.endNs = endNs;
      if (lane.numEnded < lane.collectives.size()) {
        lane.queuedNs -= lane.collectives[lane.numEnded].durationNs;
        begin(index, endNs);
        continue;
      }
      lane.queuedNs = 0;
      lane.endNs = kNever;
      if (other.isBusy())
        other.endNs = endNs + (other.endNs - endNs) / laneContention;
      nextEndNs = other.endNs;
    }
  }

  const double laneContention, computeContention;
  Lane lanes[2];
  double now = 0, nextEndNs = kNever;
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_STREAMS_H
