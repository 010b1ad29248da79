//===- Sensitivity.h - Effects of other hardware ----------------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_SENSITIVITY_H
#define FSDP_EXPLAIN_SENSITIVITY_H

#include "fsdp/Schedule/Plan.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace fsdp::explain {

/// A change of the hardware, and the step's duration with it.
struct WhatIf {
  std::string change; // "network 10 % slower"
  double stepNs = 0;
};

/// The plan simulated with other durations. `fasterHost` is the problem with copies to and from the
/// host that take half the time; nullopt: the step has none. If the problem has a memory cap, also
/// the better of the same plan and the best plan that a short search finds with 1 GiB more.
std::vector<WhatIf> findSensitivity(const schedule::Problem &problem, const schedule::Plan &plan,
                                    const std::optional<schedule::Problem> &fasterHost);

/// Prints a table of the changes; `stepNs` is the duration without them.
void printSensitivity(const std::vector<WhatIf> &changes, double stepNs, llvm::raw_ostream &os);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_SENSITIVITY_H
