//===- Sensitivity.h - What other hardware would be worth -------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_SENSITIVITY_H
#define FSDP_EXPLAIN_SENSITIVITY_H

#include "fsdp/Schedule/Plan.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace fsdp::explain {

/// One thing that is otherwise, and how long the step takes then.
struct WhatIf {
  std::string change; // "network 10 % slower"
  double stepNs = 0;
};

/// The plan simulated with other durations; where the problem has a memory cap, also the best plan
/// that a short search finds with 1 GiB more, or the same plan if that is better.
std::vector<WhatIf> findSensitivity(const schedule::Problem &problem, const schedule::Plan &plan);

/// A table of them; `stepNs` is the step as it is.
void printSensitivity(const std::vector<WhatIf> &changes, double stepNs, llvm::raw_ostream &os);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_SENSITIVITY_H
