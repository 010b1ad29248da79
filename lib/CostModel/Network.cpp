//===- Network.cpp - Costs of collectives by topology ---------------------===//

#include "fsdp/CostModel/Network.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

using namespace fsdp;
using namespace fsdp::cost;

llvm::StringRef fsdp::cost::getName(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::AllGather:
    return "all_gather";
  case CollectiveKind::ReduceScatter:
    return "reduce_scatter";
  case CollectiveKind::AllReduce:
    return "all_reduce";
  case CollectiveKind::CopyEngineGather:
    return "copy_engine_all_gather";
  }
  llvm_unreachable("a kind without name");
}

fsdp::schedule::Contention Network::getContention() const {
  schedule::Contention all = contention;
  all.replicas = contention.lanes;
  all.copyEngines = copyEngines ? copyEngines->computeContention : contention.gathers;
  return all;
}

static int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// How a collective over `ranks` ranks uses a level.
struct LevelUse {
  int64_t hops;    // of a ring
  int64_t members; // units of the level below that meet in one unit
  int64_t inside;  // participating ranks in one unit of the level below
};

static std::vector<LevelUse> useLevels(llvm::ArrayRef<NetworkLevel> levels, int64_t ranks) {
  std::vector<LevelUse> uses;
  int64_t capacity = 1, below = ranks;
  for (const NetworkLevel &level : levels) {
    int64_t inside = std::min(capacity, ranks);
    capacity = level.units == 0 ? ranks : std::min(capacity * level.units, ranks);
    int64_t units = divideUp(ranks, capacity);
    uses.push_back({below - units, divideUp(below, units), inside});
    below = units;
  }
  return uses;
}

/// Likewise for ranks that are `stride` apart.
static std::vector<LevelUse> useLevels(llvm::ArrayRef<NetworkLevel> levels, int64_t ranks,
                                       int64_t stride) {
  if (stride == 1)
    return useLevels(levels, ranks);
  std::vector<LevelUse> whole = useLevels(levels, ranks * stride);
  std::vector<LevelUse> between = useLevels(levels, stride);
  std::vector<LevelUse> uses;
  int64_t below = ranks, inside = 1;
  for (size_t l = 0; l < levels.size(); ++l) {
    int64_t members = std::min(below, divideUp(whole[l].members, between[l].members));
    int64_t units = divideUp(below, members);
    uses.push_back({below - units, members, inside});
    below = units;
    inside *= members;
  }
  return uses;
}

static CollectiveCost costOverLevels(const Network &network, CollectiveKind kind, int64_t ranks,
                                     int64_t stride) {
  std::vector<LevelUse> uses = useLevels(network.levels, ranks, stride);
  CollectiveCost cost;
  cost.latencyNs = network.baseNs;
  bool isTree = kind == CollectiveKind::AllReduce;
  double slowest = INFINITY, nsPerByteInStages = 0, share = 1;
  for (size_t l = 0; l < uses.size(); ++l) {
    const NetworkLevel &level = network.levels[l];
    double members = static_cast<double>(uses[l].members);
    if (uses[l].members > 1) {
      slowest = std::min(slowest, level.bytesPerSec * static_cast<double>(uses[l].inside));
      nsPerByteInStages += share * (members - 1) / members / level.bytesPerSec * 1e9;
    }
    share /= members;
    double hops = network.algorithm == CollectiveAlgorithm::Ring ? static_cast<double>(uses[l].hops)
                                                                 : members - 1;
    if (isTree)
      hops = 2 * (l == 0 ? members - 1
                         : static_cast<double>(llvm::Log2_64_Ceil(uint64_t(uses[l].members))));
    bool isAlone = l > 0 && uses[l].inside == 1;
    cost.latencyNs +=
        hops * (isTree || isAlone ? level.treeHopNs.value_or(level.hopNs) : level.hopNs);
  }
  double n = static_cast<double>(ranks);
  cost.nsPerByte = network.algorithm == CollectiveAlgorithm::Ring ? (n - 1) / n / slowest * 1e9
                                                                  : nsPerByteInStages;
  if (isTree)
    cost.nsPerByte *= 2;
  return cost;
}

/// Of the algorithms of two lines, the faster one for each number of bytes.
static CollectiveCost takeFaster(CollectiveCost first, CollectiveCost second) {
  if (second.latencyNs < first.latencyNs)
    std::swap(first, second);
  if (first.nsPerByte <= second.nsPerByte)
    return first;
  constexpr int64_t kLargest = int64_t(1) << 40; // beyond any group
  const double equal =
      std::ceil((second.latencyNs - first.latencyNs) / (first.nsPerByte - second.nsPerByte));
  if (equal >= static_cast<double>(kLargest))
    return first;
  CollectiveCost cost = first;
  cost.nsPerByte = second.nsPerByte;
  std::vector<schedule::CurvePoint> points;
  for (int64_t bytes : {std::max<int64_t>(1, static_cast<int64_t>(equal)), kLargest})
    points.push_back({bytes, second.durationNs(bytes)});
  cost.curve = std::make_shared<schedule::CollectiveCurve>(cost.latencyNs, std::move(points));
  return cost;
}

static CollectiveCost costOfPat(const Pat &pat, int64_t ranks, double ringBytesPerNs) {
  const auto doublings = static_cast<double>(llvm::Log2_64_Ceil(static_cast<uint64_t>(ranks)));
  return {
      {.latencyNs = pat.baseNs + doublings * pat.hopNs + static_cast<double>(ranks) * pat.perRankNs,
       .nsPerByte = 1 / (pat.rateShare * ringBytesPerNs)}};
}

static CollectiveCost gatherOverLevels(const Network &network, int64_t ranks, int64_t stride) {
  CollectiveCost cost = costOverLevels(network, CollectiveKind::AllGather, ranks, stride);
  const bool isAloneOnHost =
      network.getRanksPerHost() > 0 && useLevels(network.levels, ranks, stride)[0].members == 1;
  if (!network.pat || network.algorithm != CollectiveAlgorithm::Ring || !isAloneOnHost)
    return cost;
  const auto n = static_cast<double>(ranks);
  return takeFaster(cost, costOfPat(*network.pat, ranks, (n - 1) / n / cost.nsPerByte));
}

static CollectiveCost costOfCopies(const CopyEngines &engines, int64_t ranks) {
  double n = static_cast<double>(ranks);
  return {{.latencyNs = engines.baseNs + (n - 1) * engines.hopNs,
           .nsPerByte = (n - 1) / n / engines.bytesPerSec * 1e9}};
}

CollectiveCost MeasuredCollective::getCost() const {
  CollectiveCost cost{{latencyNs, nsPerByte}, spread, Origin::Measured};
  if (durations.empty())
    return cost;
  std::vector<SizedDuration> rising = durations;
  // Other load on the machine makes single medians too long, but hardly ever too short.
  for (size_t i = rising.size() - 1; i-- > 0;)
    rising[i].medianNs = std::min(rising[i].medianNs, rising[i + 1].medianNs);
  const Line below = fitLineBelow(rising);
  cost.latencyNs = below.latencyNs;
  cost.nsPerByte = below.nsPerUnit;
  std::vector<schedule::CurvePoint> points;
  for (const SizedDuration &duration : rising)
    points.push_back({duration.size, duration.medianNs});
  cost.curve = std::make_shared<schedule::CollectiveCurve>(cost.latencyNs, std::move(points));
  return cost;
}

CollectiveCost Network::getCost(CollectiveKind kind, int64_t ranks, int64_t stride) const {
  if (ranks <= 1)
    return {};
  const MeasuredCollective *nearest = nullptr;
  for (const MeasuredCollective &candidate : measured)
    if (candidate.kind == kind &&
        (!nearest || std::abs(candidate.ranks - ranks) < std::abs(nearest->ranks - ranks)))
      nearest = &candidate;
  bool isLikeMeasured = stride == 1 || levels.empty();
  if (nearest && nearest->ranks == ranks && isLikeMeasured)
    return nearest->getCost();
  if (kind == CollectiveKind::CopyEngineGather)
    return costOfCopies(*copyEngines, ranks);
  if (!levels.empty())
    return kind == CollectiveKind::AllGather ? gatherOverLevels(*this, ranks, stride)
                                             : costOverLevels(*this, kind, ranks, stride);
  if (!nearest) {
    // An all-reduce costs as much as a reduce-scatter and an all-gather.
    CollectiveCost reduce = getCost(CollectiveKind::ReduceScatter, ranks);
    CollectiveCost gather = getCost(CollectiveKind::AllGather, ranks);
    return {{reduce.latencyNs + gather.latencyNs, reduce.nsPerByte + gather.nsPerByte},
            std::max(reduce.spread, gather.spread),
            Origin::Roofline};
  }
  double hops = static_cast<double>(ranks - 1),
         measuredHops = static_cast<double>(nearest->ranks - 1);
  double traffic =
      hops / static_cast<double>(ranks) / (measuredHops / static_cast<double>(nearest->ranks));
  return {{nearest->latencyNs * hops / measuredHops, nearest->nsPerByte * traffic},
          nearest->spread,
          Origin::Roofline};
}
