//===- Contention.h - What runs at once is slower ----------------*- C++ -*-===//

#ifndef FSDP_SCHEDULE_CONTENTION_H
#define FSDP_SCHEDULE_CONTENTION_H

namespace fsdp::schedule {

/// By which factor work takes longer beside other work. Each factor is named by the other work. A
/// collective's latency is never longer.
struct Contention {
  // The time in which a collective's bytes move.
  /// In [1, 2]: of gathers beside reductions, and of reductions beside gathers.
  double lanes = 1;
  /// In [1, 2]: of an all-reduce over replicas beside a gather or a reduction, and the reverse. A
  /// collective that meets two others takes longer by the sum of both excesses over 1.
  double replicas = 1;
  /// At least 1: of any collective beside computation. It multiplies the factors above.
  double computation = 1;

  // Computation, from the begin of a collective's latency to the end of its bytes. At least 1.
  /// Beside one collective by kernels; an all-reduce over replicas counts as a reduction.
  double gathers = 1, reductions = 1;
  /// Beside several collectives by kernels; no less than beside one.
  double several = 1;
  /// Beside a gather by copy engines alone; no more than beside a gather by kernels.
  double copyEngines = 1;

  /// The same factor of computation for one collective by kernels and for several.
  void setOfComputation(double factor) { gathers = reductions = several = factor; }

  bool operator==(const Contention &) const = default;
};

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_CONTENTION_H
