//===- Trace.h - A simulated step for ui.perfetto.dev ------------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_TRACE_H
#define FSDP_EXPLAIN_TRACE_H

#include "fsdp/Explain/ScheduleView.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp::explain {

/// Writes Chrome's trace format (JSON) for Perfetto and chrome://tracing. Tracks: the critical
/// path, modules, compute, gather, reduce, and one counter of live bytes per category and in total.
/// Slices are named by module path, or by collective and groups; their arguments hold bytes,
/// waiting time and the source of the duration. An arrow leads from a collective to the operation
/// that waits for it.
/// Format: "Trace Event Format", Google, 2016; its times are microseconds.
void writeTrace(const ScheduleView &view, llvm::raw_ostream &os);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_TRACE_H
