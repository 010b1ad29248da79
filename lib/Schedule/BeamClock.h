//===- BeamClock.h - Time in a partial plan --------------------*- C++ -*-===//
//
// Private to the beam search. Simulates as Streams.h does, for plans that are copied at every
// position: of two lanes, each carries out one bucket at a time; one more of gathers may be queued.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_BEAMCLOCK_H
#define FSDP_LIB_SCHEDULE_BEAMCLOCK_H

#include "fsdp/Schedule/Problem.h"

#include <algorithm>
#include <limits>

namespace fsdp::schedule {

/// Remaining times of buckets hold for a lane that runs alone.
struct Progress {
  double nowNs = 0;
  double gatherNs = 0, queuedNs = 0;        // left of the bucket at work, and of the one behind it
  double reduceNs = 0;                      // left of the bucket of reductions at work
  uint32_t numGathered = 0;                 // gathers that have ended
  uint32_t workingEnd = 0, queuedEnd = 0;   // how many have when those buckets have
  uint32_t numLaunched = 0, numReduced = 0; // buckets of reductions
};

class BeamClock {
public:
  BeamClock(const Problem &problem, std::vector<double> reductionNs)
      : laneContention(problem.laneContention), computeContention(problem.computeContention),
        reductionNs(std::move(reductionNs)) {
    for (double &durationNs : this->reductionNs)
      durationNs = std::max(durationNs, kLeastNs);
  }

  /// Launches the gathers up to `end`. At most one bucket may be running, and none queued.
  void launchGathers(Progress &progress, uint32_t end, double durationNs) const {
    durationNs = std::max(durationNs, kLeastNs);
    if (progress.gatherNs > 0) {
      progress.queuedNs = durationNs;
      progress.queuedEnd = end;
    } else {
      progress.gatherNs = durationNs;
      progress.workingEnd = end;
    }
  }

  void launchReductions(Progress &progress) const {
    if (progress.numLaunched++ == progress.numReduced)
      progress.reduceNs = reductionNs[progress.numReduced];
  }

  /// Computation stands still until so many gathers have ended; false if they are not launched.
  bool waitForGathers(Progress &progress, uint32_t count) const {
    while (progress.numGathered < count) {
      if (progress.gatherNs == 0)
        return false;
      pass(progress, nextEndNs(progress));
    }
    return true;
  }

  /// Likewise for buckets of reductions, which must be launched.
  void waitForReductions(Progress &progress, uint32_t count) const {
    while (progress.numReduced < count)
      pass(progress, nextEndNs(progress));
  }

  void compute(Progress &progress, double durationNs) const {
    while (isBusy(progress)) {
      const double endNs = nextEndNs(progress);
      if (durationNs * computeContention <= endNs) {
        pass(progress, durationNs * computeContention);
        return;
      }
      durationNs -= endNs / computeContention;
      pass(progress, endNs);
    }
    progress.nowNs += durationNs;
  }

  /// The time at which all launched collectives have ended.
  double finish(Progress progress) const {
    while (isBusy(progress))
      pass(progress, nextEndNs(progress));
    return progress.nowNs;
  }

private:
  static bool isBusy(const Progress &progress) {
    return progress.gatherNs > 0 || progress.reduceNs > 0;
  }
  double slowdown(const Progress &progress) const {
    return progress.gatherNs > 0 && progress.reduceNs > 0 ? laneContention : 1;
  }
  /// Time from now until the first running bucket ends; a lane must be busy.
  double nextEndNs(const Progress &progress) const {
    const double gatherNs = progress.gatherNs > 0 ? progress.gatherNs : kNever;
    const double reduceNs = progress.reduceNs > 0 ? progress.reduceNs : kNever;
    return std::min(gatherNs, reduceNs) * slowdown(progress);
  }

  /// Lets time pass, at most until the next bucket ends.
  void pass(Progress &progress, double durationNs) const {
    progress.nowNs += durationNs;
    const double workNs = durationNs / slowdown(progress);
    if (progress.gatherNs > 0 && (progress.gatherNs -= workNs) <= kRounding) {
      progress.numGathered = progress.workingEnd;
      progress.gatherNs = progress.queuedNs;
      progress.workingEnd = progress.queuedEnd;
      progress.queuedNs = 0;
    }
    if (progress.reduceNs > 0 && (progress.reduceNs -= workNs) <= kRounding) {
      ++progress.numReduced;
      progress.reduceNs =
          progress.numReduced < progress.numLaunched ? reductionNs[progress.numReduced] : 0;
    }
  }

  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr double kRounding = 1e-6, kLeastNs = 1e-5; // a lane without work is not busy

  const double laneContention, computeContention;
  std::vector<double> reductionNs; // by bucket
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_BEAMCLOCK_H
