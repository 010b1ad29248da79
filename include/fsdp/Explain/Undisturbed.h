//===- Undisturbed.h - Measured durations without contention -----*- C++ -*-===//
//
// The inverse of the simulation's contention: from the intervals in which operations and
// collectives of a step ran beside each other, the durations that each would have had alone.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EXPLAIN_UNDISTURBED_H
#define FSDP_EXPLAIN_UNDISTURBED_H

#include "fsdp/Schedule/Contention.h"
#include "fsdp/Schedule/Simulate.h"

#include <cstddef>
#include <span>
#include <vector>

namespace fsdp::explain {

/// A collective that has run. Those of one lane (gathers; reductions; all-reduces over replicas)
/// have run one after another.
struct RunCollective {
  enum class Kind : uint8_t { Gather, CopyEngineGather, Reduction, Across };
  Kind kind = Kind::Gather;
  schedule::Interval interval;
  double latencyNs = 0; // at its beginning, in which no byte moves
};

struct Undisturbed {
  double measuredNs = 0;
  double ns = 0;       // alone
  double besideNs = 0; // part of the measured time: other work ran, too

  bool isAlone() const { return ns > 0 && 10 * besideNs <= measuredNs; }
  /// Where other work takes more than half of the time, the rest says little: the operating system
  /// divides a core in another way than the simulation.
  bool isKnown() const { return ns > 0 && 2 * ns >= measuredNs; }
};

/// Whether the executions of some work that ran alone stand for all of them. If they are few, they
/// are exceptions: what computation waits for without anything beside it may be what an
/// interruption has made late.
inline bool areAloneEnough(size_t numAlone, size_t numAll) {
  return numAlone > 0 && 5 * numAlone >= numAll;
}

struct UndisturbedStep {
  std::vector<Undisturbed> operations, collectives; // as given
};

/// Operations have run one after another. Linear, except for sorting.
UndisturbedStep removeContention(const schedule::Contention &contention,
                                 std::span<const schedule::Interval> operations,
                                 std::span<const RunCollective> collectives);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_UNDISTURBED_H
