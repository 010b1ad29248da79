//===- ExpectedDurations.cpp - Predicted durations of collectives ---------===//

#include "fsdp/Export/ExpectedDurations.h"

#include <cmath>

using namespace fsdp;

void fsdp::setExpectedDurations(PlanTables &tables, const cost::CostModel &costs) {
  // `bytes` of a start is the size of one rank's shard.
  for (fsdp_entry &entry : tables.entries) {
    cost::CollectiveKind kind = cost::CollectiveKind::AllReduce;
    if (entry.kind == FSDP_ALL_GATHER_START)
      kind = cost::CollectiveKind::AllGather;
    else if (entry.kind == FSDP_REDUCE_SCATTER_START)
      kind = cost::CollectiveKind::ReduceScatter;
    else if (entry.kind != FSDP_ALL_REDUCE_START && entry.kind != FSDP_NORM_ALL_REDUCE_START &&
             entry.kind != FSDP_AMAX_ALL_REDUCE_START)
      continue;
    const fsdp_communicator &communicator = tables.communicators[entry.communicator];
    int64_t bytes = entry.bytes;
    if (kind != cost::CollectiveKind::AllReduce)
      bytes *= communicator.ranks;
    cost::CollectiveCost cost =
        costs.getCollectiveCost(kind, communicator.ranks, communicator.stride);
    entry.expected_ns = std::llround(cost.durationNs(bytes));
  }
}
