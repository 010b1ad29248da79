//===- LocalSearch.h - Random moves, and which of them are accepted -*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_LOCALSEARCH_H
#define FSDP_LIB_SCHEDULE_LOCALSEARCH_H

#include "SearchSpace.h"
#include "Simulate/Draws.h"
#include "fsdp/Schedule/ListSchedule.h"

namespace fsdp::schedule {

/// The rule of Metropolis et al. 1953. The temperature is controlled so that the accepted share of
/// the worse moves falls to 0 over the search, because the losses of moves differ by orders of
/// magnitude between problems. Uses no functions of the C library, whose last bits differ between
/// machines.
class Annealing {
public:
  /// `share` is the accepted share of the worse moves at the start.
  Annealing(double firstTemperatureNs, double share)
      : temperatureNs(firstTemperatureNs), share(share) {}

  /// `lossNs` is the makespan that the move adds; `progress` goes from 0 to 1 over the search.
  bool accepts(double lossNs, double progress, Draws &draws) {
    if (lossNs <= 0)
      return true;
    constexpr double kGain = .05;
    double wanted = share * (1 - progress) * (1 - progress);
    bool isAccepted = lossNs <= temperatureNs * drawExponential(draws);
    temperatureNs *= isAccepted ? 1 - kGain * (1 - wanted) : 1 + kGain * wanted;
    return isAccepted;
  }

private:
  /// An exponential variable of mean 1, by comparisons alone (von Neumann 1951).
  static double drawExponential(Draws &draws) {
    for (double whole = 0;; ++whole) {
      double first = draws.fraction(), least = first;
      for (bool isOdd = true;; isOdd = !isOdd) {
        double other = draws.fraction();
        if (other >= least) {
          if (isOdd)
            return whole + first;
          break;
        }
        least = other;
      }
    }
  }

  double temperatureNs;
  const double share;
};

/// A move changes one element of the decisions. Since layers are alike, it may instead change a
/// stretch of elements: all of them, or every second, third or fourth.
class RandomMove {
public:
  /// The move changes `next`. `launches` has, by use, the launches of gathers in the plan of `next`
  /// before the move, and may be empty.
  RandomMove(const SearchSpace &space, std::span<const uint32_t> launches, Draws &draws,
             Decisions &next)
      : space(space), launches(launches), draws(draws), next(next) {}

  /// False if the move changed nothing.
  bool make();

private:
  /// A selection of elements: every `stride`-th in [begin, end).
  struct Pattern {
    size_t begin, end, stride;
    /// Calls `element` for each. Whether a call returned that it changed the element.
    template <typename Element> bool change(Element element) const {
      bool isChanged = false;
      for (size_t i = begin; i < end; i += stride)
        isChanged |= element(i);
      return isChanged;
    }
  };
  Pattern choosePattern(size_t count);

  template <typename Bucket> bool moveBuckets(std::vector<Bucket> &buckets, double mergeShare);
  bool moveKeeps();
  bool moveChunks();
  bool moveTransports();
  bool moveGates();
  bool moveLaunches();
  bool moveReductionGates();
  bool moveLanes();
  /// Replaces the buckets in a stretch by buckets of one size, and sets their gates.
  bool rebuildGathers();
  bool rebuildReductions(uint32_t from, uint32_t to); // reductions that get ready in this range

  void gatherAgain(uint32_t use);
  void keep(uint32_t use);
  bool fits(const Buffer &buffer) const {
    return MemoryProfile(space, next.kept, next.chunked).fits(buffer);
  }
  void gatherWhole(uint32_t use);
  uint8_t drawChunk();
  uint8_t chunkedOf(uint32_t use) const {
    return next.chunked.empty() ? uint8_t(0) : next.chunked[use];
  }
  bool gatherFromChunk(uint32_t use, uint8_t number);

  const SearchSpace &space;
  const std::span<const uint32_t> launches;
  Draws &draws;
  Decisions &next;
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_LOCALSEARCH_H
