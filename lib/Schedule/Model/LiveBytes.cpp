//===- LiveBytes.cpp - Live bytes of a plan at each moment ----------------===//

#include "LiveBytes.h"

using namespace fsdp::schedule;

std::vector<uint32_t> fsdp::schedule::findCopyEnds(const Problem &problem,
                                                   const std::vector<int32_t> &nextUses,
                                                   const std::vector<uint8_t> &kept) {
  std::vector<uint32_t> ends(problem.uses.size());
  for (size_t i = ends.size(); i-- > 0;) {
    int32_t next = nextUses[i];
    ends[i] = next >= 0 && kept[next] ? ends[next] : problem.uses[i].last;
  }
  return ends;
}

Peak fsdp::schedule::peakOf(const Problem &problem, const Plan &plan) {
  Peak peak;
  auto reach = [&](int64_t bytes, uint32_t operation) {
    if (bytes > peak.bytes)
      peak = {bytes, operation};
  };
  walkLiveBytes(problem, plan, reach, reach);
  return peak;
}
