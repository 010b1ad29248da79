//===- DiffPage.h - Two steps as one HTML file -------------------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_DIFFPAGE_H
#define FSDP_EXPLAIN_DIFFPAGE_H

#include "fsdp/Explain/MeasuredStep.h"
#include "fsdp/Explain/Print.h"

namespace fsdp::explain {

struct NamedPlan {
  std::string name; // file name
  ExplainedPlan plan;
};

/// Writes a self-contained HTML page: both timelines on one axis, memory under the cap, figures
/// side by side, and the decisions in which the schedules differ, sorted by cost.
void writeDiffPage(const NamedPlan &left, const NamedPlan &right, llvm::raw_ostream &os);

/// Likewise for a predicted step and its measured run. Errors are those of printMeasuredDiff.
llvm::Error writeMeasuredPage(const ExplainedPlan &predicted, const MeasuredRun &measured,
                              llvm::raw_ostream &os);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_DIFFPAGE_H
