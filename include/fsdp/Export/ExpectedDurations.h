//===- ExpectedDurations.h - How long a plan's collectives take --*- C++ -*-===//

#ifndef FSDP_EXPORT_EXPECTEDDURATIONS_H
#define FSDP_EXPORT_EXPECTEDDURATIONS_H

#include "fsdp/CostModel/CostModel.h"
#include "fsdp/Export/PlanTables.h"

namespace fsdp {

/// Notes in the start of each gather and reduce-scatter how long it takes alone, by latency and
/// bytes over the ranks that take part (fsdp_entry::expected_ns); the runtime's watchdog allows for
/// it.
void setExpectedDurations(PlanTables &tables, const cost::CostModel &costs);

} // namespace fsdp

#endif // FSDP_EXPORT_EXPECTEDDURATIONS_H
