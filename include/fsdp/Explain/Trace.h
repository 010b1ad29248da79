//===- Trace.h - A simulated step for ui.perfetto.dev ------------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_TRACE_H
#define FSDP_EXPLAIN_TRACE_H

#include "fsdp/Explain/ScheduleView.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp::explain {

/// Writes Chrome's trace format (JSON), which Perfetto and chrome://tracing open. Tracks: modules,
/// compute, gather, reduce, and one counter of live bytes per category and of all. Slices are named
/// by module path or by collective and groups; their arguments hold bytes, waiting time and
/// where the duration comes from. An arrow leads from a collective to the operation that waits.
/// Format: "Trace Event Format", Google, 2016; times there are microseconds.
void writeTrace(const ScheduleView &view, llvm::raw_ostream &os);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_TRACE_H
