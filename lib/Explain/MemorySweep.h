//===- MemorySweep.h - Live bytes at each position --------------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_MEMORYSWEEP_H
#define FSDP_EXPLAIN_MEMORYSWEEP_H

#include "fsdp/Explain/ScheduleView.h"

namespace fsdp::explain {

/// Fills the memory of a view that has its labels and operations: the bytes of walkHeldBytes, by
/// category. Linear in operations and collectives.
void sweepMemory(const schedule::Problem &problem, const schedule::Plan &plan, ScheduleView &view);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_MEMORYSWEEP_H
