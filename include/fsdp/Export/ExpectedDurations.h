//===- ExpectedDurations.h - Predicted durations of collectives -*- C++ -*-===//

#ifndef FSDP_EXPORT_EXPECTEDDURATIONS_H
#define FSDP_EXPORT_EXPECTEDDURATIONS_H

#include "fsdp/CostModel/CostModel.h"
#include "fsdp/Export/PlanTables.h"

namespace fsdp {

/// Sets fsdp_entry::expected_ns of each gather and reduce-scatter to its predicted duration without
/// contention: latency plus bytes over the participating ranks. The runtime's watchdog allows for
/// it.
void setExpectedDurations(PlanTables &tables, const cost::CostModel &costs);

} // namespace fsdp

#endif // FSDP_EXPORT_EXPECTEDDURATIONS_H
