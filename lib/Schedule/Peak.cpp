//===- Peak.cpp - The most memory that a plan holds -----------------------===//

#include "HeldMemory.h"
#include "fsdp/Schedule/Plan.h"

using namespace fsdp::schedule;

Peak fsdp::schedule::peakOf(const Problem &problem, const Plan &plan) {
  Peak peak;
  auto reach = [&](int64_t bytes, uint32_t operation) {
    if (bytes > peak.bytes)
      peak = {bytes, operation};
  };
  walkHeldMemory(problem, plan, reach, reach);
  return peak;
}
