//===- ExpectedDurations.cpp - How long a plan's collectives take ----------===//

#include "fsdp/Export/ExpectedDurations.h"

#include <cmath>

using namespace fsdp;

void fsdp::setExpectedDurations(PlanTables &tables, const cost::CostModel &costs) {
  int64_t ranks = tables.header.world_size / tables.header.replicas;
  if (ranks == 1)
    return;
  cost::CollectiveCost gather = costs.getCollectiveCost(cost::CollectiveKind::AllGather, ranks);
  cost::CollectiveCost reduce = costs.getCollectiveCost(cost::CollectiveKind::ReduceScatter, ranks);
  cost::CollectiveCost across = costs.getCollectiveCost(cost::CollectiveKind::AllReduce,
                                                        tables.header.replicas, /*stride=*/ranks);
  auto set = [](fsdp_entry &entry, const cost::CollectiveCost &cost, int64_t bytes) {
    entry.expected_ns = std::llround(cost.latencyNs + static_cast<double>(bytes) * cost.nsPerByte);
  };
  // `bytes` of a start are those of one rank's shard.
  for (fsdp_entry &entry : tables.entries)
    if (entry.kind == FSDP_ALL_GATHER_START && entry.ranks)
      set(entry, costs.getCollectiveCost(cost::CollectiveKind::AllGather, entry.ranks),
          entry.bytes * entry.ranks);
    else if (entry.kind == FSDP_ALL_GATHER_START)
      set(entry, gather, entry.bytes * ranks);
    else if (entry.kind == FSDP_REDUCE_SCATTER_START)
      set(entry, reduce, entry.bytes * ranks);
    else if (entry.kind == FSDP_ALL_REDUCE_START)
      set(entry, across, entry.bytes);
    else if (entry.kind == FSDP_NORM_ALL_REDUCE_START)
      set(entry, costs.getCollectiveCost(cost::CollectiveKind::AllReduce, ranks), entry.bytes);
}
