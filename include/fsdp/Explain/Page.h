//===- Page.h - A simulated step as one HTML file ----------------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_PAGE_H
#define FSDP_EXPLAIN_PAGE_H

#include "fsdp/Explain/Print.h"

namespace fsdp::explain {

/// Writes a self-contained HTML page: summary, timeline of modules, compute, gather and reduce,
/// memory by category under the cap, every group with its reasons.
void writePage(const ExplainedPlan &plan, llvm::raw_ostream &os);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_PAGE_H
