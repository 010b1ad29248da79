//===- Peers.cpp - Decisions of other compilers ---------------------------===//

#include "Peers.h"

#include "fsdp/Schedule/Policies.h"

#include <algorithm>
#include <limits>

using namespace fsdp::benchmark;
using namespace fsdp::schedule;

std::string_view fsdp::benchmark::getName(Peer peer) {
  switch (peer) {
  case Peer::XlaLatencyHiding:
    return "xla-lhs";
  case Peer::DeepCompile:
    return "deepcompile";
  case Peer::Inductor:
    return "inductor";
  }
  return "";
}

/// Sets the latest gates that hide each gather, on a lane that runs one gather after another (XLA's
/// scheduler works from the end of the program and places a start when its latency is covered).
static void setLatestGates(const Problem &problem, Decisions &decisions) {
  std::vector<double> beginNs = problem.reachedNs();
  double nextNs = std::numeric_limits<double>::infinity();
  for (size_t i = decisions.gathers.size(); i-- > 0;) {
    Decisions::Gathers &gather = decisions.gathers[i];
    const Use &use = problem.uses[gather.uses.front()];
    double endNs = std::min(beginNs[use.first], nextNs);
    nextNs = endNs - problem.meshOf(problem.groups[use.group])
                         .gatherCost.durationNs(problem.groups[use.group].gatheredBytes);
    auto after = std::upper_bound(beginNs.begin(), beginNs.end(), nextNs);
    if (after != beginNs.begin())
      gather.gate = std::min(use.first, uint32_t(after - beginNs.begin() - 1));
  }
}

/// Keeps gathered copies while the expected peak stays within the budget, those first that save
/// most time per byte; gathers as early as the budget allows.
static void decideDeepCompile(const Problem &problem, Decisions &decisions) {
  std::vector<int32_t> previous = problem.previousUses();
  std::vector<uint32_t> candidates;
  for (uint32_t i = 0; i < decisions.kept.size(); ++i)
    if (previous[i] >= 0 && !decisions.kept[i] &&
        problem.groups[problem.uses[i].group].keep == KeepRule::Free)
      candidates.push_back(i);
  auto bytesOf = [&](uint32_t use) {
    return problem.groups[problem.uses[use].group].gatheredBytes;
  };
  auto savingOf = [&](uint32_t use) {
    int64_t bytes = std::max<int64_t>(bytesOf(use), 1);
    return problem.meshOfUse(use).gatherCost.durationNs(bytes) / double(bytes);
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](uint32_t a, uint32_t b) { return savingOf(a) > savingOf(b); });
  std::optional<int64_t> budgetBytes;
  if (problem.memoryCapBytes)
    budgetBytes = *problem.memoryCapBytes / 10 * 9;
  int64_t expectedBytes = problem.minimumPeak().bytes;
  for (uint32_t use : candidates) {
    expectedBytes += bytesOf(use);
    if (budgetBytes && expectedBytes > *budgetBytes)
      break;
    decisions.kept[use] = true;
  }
  std::erase_if(decisions.gathers, [&](const Decisions::Gathers &gather) {
    return decisions.kept[gather.uses.front()];
  });
  decisions.gathersGoFirst = true;
  decisions.memoryCapBytes = budgetBytes;
}

Decisions fsdp::benchmark::decideAs(const Problem &problem, Peer peer) {
  // All peers keep copies that take no memory, and gather and reduce each group by itself.
  Decisions decisions = decideByPolicy(problem, Policy::Asap);
  switch (peer) {
  case Peer::XlaLatencyHiding:
    setLatestGates(problem, decisions);
    break;
  case Peer::DeepCompile:
    decideDeepCompile(problem, decisions);
    break;
  case Peer::Inductor: {
    // The peer's reordering passes may add 5 % or 1 GiB to the peak.
    setLatestGates(problem, decisions);
    int64_t minimum = problem.minimumPeak().bytes;
    decisions.memoryCapBytes = minimum + std::max<int64_t>(minimum / 20, int64_t(1) << 30);
    break;
  }
  }
  return decisions;
}
