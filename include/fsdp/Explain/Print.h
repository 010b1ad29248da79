//===- Print.h - A schedule and its reasons as text --------------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_PRINT_H
#define FSDP_EXPLAIN_PRINT_H

#include "fsdp/Explain/Explanation.h"
#include "fsdp/Explain/Sensitivity.h"
#include "fsdp/Schedule/LowerBound.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp::explain {

/// A plan with its view, explanation and bound. The references must outlive it.
struct ExplainedPlan {
  const schedule::Problem &problem;
  const schedule::Plan &plan;
  const ScheduleView &view;
  const Explanation &explanation;
  const schedule::LowerBound &bound;
};

/// The step as a whole: times, bound, peak, the critical path, memory by category at the peak.
void printStep(const ExplainedPlan &plan, llvm::raw_ostream &os);

/// Prints each group's gathers, kept copies and reductions with their reasons. `group`: only the
/// group of this name, with its decisions; empty: all.
void printGroups(const ExplainedPlan &plan, llvm::StringRef group, llvm::raw_ostream &os);

/// Writes all of this, and `changes` of the hardware if there are any, as one JSON object. Times
/// are whole nanoseconds, sizes bytes.
void writeJson(const ExplainedPlan &plan, llvm::ArrayRef<WhatIf> changes, llvm::raw_ostream &os);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_PRINT_H
