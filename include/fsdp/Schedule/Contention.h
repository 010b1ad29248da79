//===- Contention.h - Slowdown of concurrent work ----------------*- C++ -*-===//

#ifndef FSDP_SCHEDULE_CONTENTION_H
#define FSDP_SCHEDULE_CONTENTION_H

namespace fsdp::schedule {

/// Factors by which work takes longer while other work runs. Each factor is named after the other
/// work. Contention does not change a collective's latency.
struct Contention {
  // Factors of the time in which a collective's bytes move.
  /// In [1, 2]: of a gather beside a reduction, and of a reduction beside a gather.
  double lanes = 1;
  /// In [1, 2]: of an all-reduce over replicas beside a gather or a reduction, and of these beside
  /// it. Beside two other collectives the factor is 1 plus the excess over 1 of both factors.
  double replicas = 1;
  /// At least 1: of any collective beside computation. It multiplies the factors above.
  double computation = 1;

  // Factors of computation, from the start of a collective's latency to its end. At least 1.
  /// Beside one collective by kernels; an all-reduce over replicas counts as a reduction.
  double gathers = 1, reductions = 1;
  /// Beside several collectives by kernels; at least the factors beside one.
  double several = 1;
  /// Beside a gather by copy engines and no other collective; at most `gathers`.
  double copyEngines = 1;

  /// Sets the same factor of computation for one collective by kernels and for several.
  void setOfComputation(double factor) { gathers = reductions = several = factor; }

  bool operator==(const Contention &) const = default;
};

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_CONTENTION_H
