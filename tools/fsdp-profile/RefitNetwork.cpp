//===- RefitNetwork.cpp - A network with the durations of a run -----------===//

#include "RefitNetwork.h"

#include "RefitCurve.h"

#include <map>
#include <tuple>

using namespace fsdp;
using namespace fsdp::profile;
using cost::SizedDuration;
using explain::Undisturbed;

/// The sizes at which a cost without measured durations becomes a curve.
static std::vector<SizedDuration> sampleCost(const cost::CollectiveCost &cost) {
  constexpr int64_t kSmallest = 8 << 10, kLargest = 256 << 20;
  std::vector<SizedDuration> curve;
  for (int64_t bytes = kSmallest; bytes <= kLargest; bytes *= 2)
    curve.push_back({bytes, cost.durationNs(bytes), cost.spread, /*samples=*/0});
  return curve;
}

/// The medians of the durations that count; sizes without any are left out.
static std::vector<SizedDuration>
summarizeSizes(const std::map<int64_t, std::vector<Undisturbed>> &runs) {
  std::vector<SizedDuration> result;
  for (const auto &[bytes, ofSize] : runs) {
    const auto numAlone = static_cast<size_t>(
        llvm::count_if(ofSize, [](const Undisturbed &run) { return run.isAlone(); }));
    const bool onlyAlone = explain::areAloneEnough(numAlone, ofSize.size());
    std::vector<double> durationsNs;
    for (const Undisturbed &run : ofSize)
      if (onlyAlone ? run.isAlone() : run.isKnown())
        durationsNs.push_back(run.ns);
    if (!durationsNs.empty())
      result.push_back(cost::summarize(durationsNs, bytes));
  }
  return result;
}

static cost::MeasuredCollective &findOrAdd(cost::Network &network, cost::CollectiveKind kind,
                                           int64_t ranks) {
  auto found = llvm::find_if(network.measured, [&](const cost::MeasuredCollective &collective) {
    return collective.kind == kind && collective.ranks == ranks;
  });
  if (found != network.measured.end())
    return *found;
  cost::MeasuredCollective &added = network.measured.emplace_back();
  added.kind = kind;
  added.ranks = ranks;
  return added;
}

cost::Network fsdp::profile::refitNetwork(cost::Network network,
                                          llvm::ArrayRef<CollectiveRun> runs) {
  std::map<std::tuple<cost::CollectiveKind, int64_t, int64_t>,
           std::map<int64_t, std::vector<Undisturbed>>>
      byCost;
  for (const auto &[run, duration] : runs)
    if (run.stride == 1 || network.levels.empty())
      byCost[{run.kind, run.ranks, run.stride}][run.bytes].push_back(duration);
  const cost::Network before = network;
  for (const auto &[key, bySize] : byCost) {
    const auto [kind, ranks, stride] = key;
    const std::vector<SizedDuration> measured = summarizeSizes(bySize);
    if (measured.empty())
      continue;
    const cost::CollectiveCost cost = before.getCost(kind, ranks, stride);
    cost::MeasuredCollective &collective = findOrAdd(network, kind, ranks);
    if (collective.durations.empty())
      collective.durations = sampleCost(cost);
    collective.durations =
        refitCurve(collective.durations, measured,
                   [&, &cost = cost](int64_t bytes) { return cost.durationNs(bytes); });
    const cost::Line line = cost::fitLine(collective.durations);
    collective.latencyNs = line.latencyNs;
    collective.nsPerByte = line.nsPerUnit;
    collective.spread = 0;
    for (const SizedDuration &duration : collective.durations)
      collective.spread = std::max(collective.spread, duration.spread);
  }
  return network;
}
