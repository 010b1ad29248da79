//===- FakeRun.cpp - Options of a run without peers -----------------------===//

#include "executor/FakeRun.h"
#include "DType.h"
#include "watch/PlanLanes.h"

#include <algorithm>

using namespace fsdp::rt;

FakeOptions fsdp::rt::fakeOptionsOf(const PlanView &plan) {
  FakeOptions fake{.ranks = plan.tables().world_size, .lanes = lanesOf(plan)};
  for (const fsdp_entry &entry : plan.entries())
    if (entry.kind == FSDP_REDUCE_SCATTER_START)
      fake.largestBlockBytes = std::max(fake.largestBlockBytes, static_cast<size_t>(entry.count) *
                                                                    elementBytes(entry.dtype));
  return fake;
}
