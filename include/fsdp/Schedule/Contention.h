//===- Contention.h - What runs at once is slower ----------------*- C++ -*-===//

#ifndef FSDP_SCHEDULE_CONTENTION_H
#define FSDP_SCHEDULE_CONTENTION_H

namespace fsdp::schedule {

/// Factors by which work takes longer, each named by what runs beside it. A collective's latency
/// takes as long beside anything; its bytes do not.
struct Contention {
  // Bytes of collectives.
  double lanes = 1;       // in [1, 2]: of gathers and of reductions, while both move
  double replicas = 1;    // in [1, 2]: of these and of those over replicas, for each that it meets;
                          // what several factors exceed 1 by adds up
  double computation = 1; // at least 1, times the others

  // Computation, at least 1, from a collective's begin to its end.
  double gathers = 1, reductions = 1; // one of them by kernels; over replicas as reductions
  double several = 1;                 // more of them: no less than one
  double copyEngines = 1;             // nothing but a gather by these: no more than by kernels

  /// By kernels, however many run.
  void setOfComputation(double factor) { gathers = reductions = several = factor; }

  bool operator==(const Contention &) const = default;
};

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_CONTENTION_H
