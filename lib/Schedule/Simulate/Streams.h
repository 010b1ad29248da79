//===- Streams.h - Time on the compute stream and on the lanes --*- C++ -*-===//
//
// Collectives of a lane run one after another in the order of their launch. An all-reduce over
// replicas also starts after its reduction has ended. On GPUs a collective does not start before
// all collectives that were launched earlier, on any lane, have started. Each collective first has
// its latency, then its bytes move. Concurrent work is slower by the problem's contention. Every
// call advances the time as far as necessary.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_STREAMS_H
#define FSDP_LIB_SCHEDULE_STREAMS_H

#include "fsdp/Schedule/Simulate.h"
#include "fsdp/Schedule/Slowdowns.h"

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
      : contention(problem.contention),
        slowsBytes(contention.lanes > 1 || contention.replicas > 1 || contention.computation > 1),
        slowsComputation(contention.several > 1 || contention.copyEngines > 1),
        startsInOrder(problem.onGpus) {}

  double getNow() const { return now; }
  bool hasEnded(Ticket ticket) const { return ticket.number < lanes[ticket.lane].numEnded; }
  /// The collective must have ended.
  Interval getInterval(Ticket ticket) const {
    return lanes[ticket.lane].collectives[ticket.number].interval;
  }

  Ticket launch(uint32_t index, CollectiveDuration duration, CollectiveWork work) {
    Ticket ticket = add(index, duration, work);
    release(index, now);
    return ticket;
  }

  /// Launches an all-reduce over replicas, which starts after the last collective launched on
  /// `behindLane` has ended.
  Ticket launchAcross(uint32_t behindLane, CollectiveDuration duration) {
    Ticket ticket = add(Activity::kAcross, duration, CollectiveWork::Reduction);
    if (Lane &behind = lanes[behindLane]; behind.isEmpty())
      release(Activity::kAcross, now);
    else
      behind.collectives.back().goesOn = true;
    return ticket;
  }

  void compute(double durationNs) {
    setComputing(true);
    if (!slowsComputation || nextNs == kNever) {
      now += durationNs;
      advanceTo(now);
      return;
    }
    while (true) {
      const double slowdown = computeSlowdown;
      double endNs = now + durationNs * slowdown;
      if (endNs <= nextNs) {
        now = endNs;
        break;
      }
      durationNs = std::max(0.0, durationNs - (nextNs - now) / slowdown);
      now = nextNs;
      advanceTo(now);
    }
    advanceTo(now);
  }

  /// Computation waits until the collective has ended.
  void waitFor(Ticket ticket) {
    if (!hasEnded(ticket))
      setComputing(false);
    while (!hasEnded(ticket))
      advanceTo(nextNs);
    now = std::max(now, getInterval(ticket).endNs);
    advanceTo(now);
  }

  /// Runs all launched collectives to their end. Returns the time at which all work has ended.
  double finish() {
    setComputing(false);
    double endNs = now;
    while (nextNs != kNever) {
      endNs = std::max(endNs, nextNs);
      advanceTo(nextNs);
    }
    return endNs;
  }

  /// The time at which a collective that has not ended will end, if the other lanes stay as they
  /// are.
  double findEnd(Ticket ticket) const {
    const Lane &lane = lanes[ticket.lane];
    uint32_t next = lane.numEnded;
    double endNs = now;
    if (activity.isBusy(ticket.lane)) {
      ++next;
      endNs = lane.nextNs;
      if (!activity.isMoving(ticket.lane))
        endNs += lane.bytesNs * slowdownOfBytes(contention, activity, ticket.lane);
    }
    for (; next <= ticket.number; ++next)
      endNs += lane.collectives[next].duration.totalNs();
    return endNs;
  }

  /// The time at which all launched collectives of the lane will have ended, if the other lanes
  /// stay as they are; now for an idle lane.
  double findEndOfLane(uint32_t index) const {
    const Lane &lane = lanes[index];
    return lane.isEmpty() ? now : findEnd({index, uint32_t(lane.collectives.size() - 1)});
  }

private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct Collective {
    CollectiveDuration duration;
    Interval interval;
    CollectiveWork work;
    uint32_t number;     // of its launch, over all lanes
    bool goesOn = false; // its all-reduce over replicas follows
  };
  struct Lane {
    std::vector<Collective> collectives;
    uint32_t numEnded = 0, numReleased = 0; // released collectives may begin
    double nextNs = kNever;                 // end of the running collective or of its latency
    double bytesNs = 0;                     // of the running collective, after its latency
    double slowdown = 1;                    // of the bytes that move
    bool isEmpty() const { return numEnded == collectives.size(); }
  };

  void setComputing(bool isComputing) {
    if (contention.computation == 1 || activity.isComputing == isComputing)
      return;
    activity.isComputing = isComputing;
    changeSpeeds(now);
  }

  /// Bytes that are moving go on at the speed of the current activity.
  void changeSpeeds(double timeNs) {
    for (uint32_t i = 0; slowsBytes && i < Activity::kNumLanes; ++i)
      if (Lane &lane = lanes[i]; activity.isMoving(i))
        if (double after = slowdownOfBytes(contention, activity, i); after != lane.slowdown) {
          lane.nextNs = timeNs + (lane.nextNs - timeNs) / lane.slowdown * after;
          lane.slowdown = after;
        }
    nextNs = std::min({lanes[0].nextNs, lanes[1].nextNs, lanes[2].nextNs});
    if (slowsComputation)
      computeSlowdown = slowdownOfComputation(contention, activity);
  }

  void move(uint32_t index, double bytesNs, double startNs) {
    Lane &lane = lanes[index];
    activity.lanes[index] = LaneState::Moving;
    lane.slowdown = slowsBytes ? slowdownOfBytes(contention, activity, index) : 1;
    lane.nextNs = startNs + bytesNs * lane.slowdown;
    changeSpeeds(startNs);
  }

  Ticket add(uint32_t index, CollectiveDuration duration, CollectiveWork work) {
    lanes[index].collectives.push_back({duration, {}, work, numLaunched++});
    return {index, uint32_t(lanes[index].collectives.size() - 1)};
  }

  /// The lane's next collective that is not released may begin from now on.
  void release(uint32_t index, double timeNs) {
    ++lanes[index].numReleased;
    if (!activity.isBusy(index) && mayBegin(lanes[index]))
      begin(index, timeNs);
  }

  bool mayBegin(const Lane &lane) const {
    return !startsInOrder || lane.collectives[lane.numEnded].number == numBegun;
  }

  /// Begins the collective that only waited for others to begin.
  void beginBlocked(double startNs) {
    for (uint32_t i = 0; startsInOrder && i < Activity::kNumLanes; ++i)
      if (!activity.isBusy(i) && lanes[i].numEnded < lanes[i].numReleased && mayBegin(lanes[i]))
        return begin(i, startNs);
  }

  /// The next collective of the lane begins at `startNs`.
  void begin(uint32_t index, double startNs) {
    Lane &lane = lanes[index];
    Collective &collective = lane.collectives[lane.numEnded];
    const CollectiveDuration &duration = collective.duration;
    collective.interval.startNs = startNs;
    ++numBegun;
    if (index == 0)
      activity.first = collective.work;
    if (!slowsBytes || duration.latencyNs == 0) {
      move(index, duration.totalNs(), startNs);
    } else {
      activity.lanes[index] = LaneState::Latency;
      lane.nextNs = startNs + duration.latencyNs;
      lane.bytesNs = duration.bytesNs;
      changeSpeeds(startNs);
    }
    beginBlocked(startNs);
  }

  /// Ends the latencies and collectives that end by `timeNs`.
  void advanceTo(double timeNs) {
    while (nextNs <= timeNs && nextNs != kNever) {
      uint32_t index = 0;
      while (lanes[index].nextNs != nextNs)
        ++index;
      if (activity.isMoving(index))
        end(index);
      else
        move(index, lanes[index].bytesNs, nextNs);
    }
  }

  void end(uint32_t index) {
    Lane &lane = lanes[index];
    double endNs = lane.nextNs;
    Collective &ended = lane.collectives[lane.numEnded++];
    ended.interval.endNs = endNs;
    if (lane.numEnded < lane.numReleased && mayBegin(lane)) {
      begin(index, endNs);
    } else {
      lane.nextNs = kNever;
      activity.lanes[index] = LaneState::Idle;
      changeSpeeds(endNs);
    }
    if (ended.goesOn)
      release(Activity::kAcross, endNs);
  }

  const Contention contention;
  const bool slowsBytes, slowsComputation, startsInOrder;
  Lane lanes[Activity::kNumLanes];
  Activity activity;
  double now = 0, nextNs = kNever; // nextNs: the least of all lanes
  double computeSlowdown = 1;
  uint32_t numLaunched = 0, numBegun = 0; // on all lanes
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_STREAMS_H
