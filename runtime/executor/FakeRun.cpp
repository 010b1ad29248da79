//===- FakeRun.cpp - Options of a run without peers -----------------------===//

#include "executor/FakeRun.h"
#include "DType.h"
#include "plan/CollectiveOrder.h"
#include "watch/PlanLanes.h"

#include <algorithm>

using namespace fsdp::rt;

FakeOptions fsdp::rt::fakeOptionsOf(const PlanView &plan) {
  FakeOptions fake{.ranks = plan.tables().world_size, .lanes = lanesOf(plan)};
  for (const fsdp_entry &entry : plan.entries()) {
    const uint8_t kind = groupKindOf(entry);
    const size_t bytes = static_cast<size_t>(entry.count) * elementBytes(entry.dtype);
    if (kind == FSDP_REDUCE_SCATTER_START)
      fake.largestBlockBytes = std::max(fake.largestBlockBytes, bytes);
    if (kind == FSDP_ALL_REDUCE_START) // in parts
      fake.largestBlockBytes =
          std::max(fake.largestBlockBytes, bytes / plan.communicatorOf(entry).ranks);
  }
  return fake;
}
