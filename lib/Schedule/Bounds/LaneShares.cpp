//===- LaneShares.cpp - Work that fits into a stretch of time --------------===//

#include "LaneShares.h"
#include "fsdp/Schedule/Slowdowns.h"

#include <algorithm>

using namespace fsdp::schedule;

namespace {

/// The rate of each kind of work at a moment; 1: as fast as alone.
using Rates = std::array<double, kNumLaneWorks>;

} // namespace

static Rates ratesOf(const Contention &contention, const Activity &activity) {
  constexpr std::pair<LaneWork, LaneWork> kOfLanes[] = {
      {LaneWork::GatherLatency, LaneWork::GatherBytes},
      {LaneWork::ReduceLatency, LaneWork::ReduceBytes}};
  Rates rates = {};
  auto moved = [&](uint32_t lane) {
    return activity.isMoving(lane) ? 1 / slowdownOfBytes(contention, activity, lane) : 0;
  };
  for (uint32_t lane = 0; lane < Activity::kAcross; ++lane) {
    rates[size_t(kOfLanes[lane].first)] = activity.lanes[lane] == LaneState::Latency;
    rates[size_t(kOfLanes[lane].second)] = moved(lane);
  }
  rates[size_t(LaneWork::AcrossBytes)] = moved(Activity::kAcross);
  if (activity.isComputing)
    rates[size_t(LaneWork::Compute)] = 1 / slowdownOfComputation(contention, activity);
  return rates;
}

/// The rates of each combination of work that may run at a moment.
static std::vector<Rates> findRates(const Problem &problem, BusyLanes busy) {
  std::vector<CollectiveWork> gathers = {CollectiveWork::Gather};
  if (std::ranges::any_of(problem.meshes,
                          [](const Mesh &mesh) { return mesh.copyEngineCost.has_value(); }))
    gathers.push_back(CollectiveWork::CopyEngineGather);
  auto statesOf = [](bool isBusy) {
    std::vector<LaneState> states = {LaneState::Idle};
    if (isBusy)
      states.insert(states.end(), {LaneState::Latency, LaneState::Moving});
    return states;
  };
  std::vector<Rates> rates;
  for (bool isComputing : {false, true})
    for (CollectiveWork gather : gathers)
      for (LaneState first : statesOf(busy.gathers))
        for (LaneState second : statesOf(busy.reductions))
          for (LaneState across : statesOf(busy.across)) {
            Activity activity{{first, second, across}, gather, isComputing};
            if (!(problem.oneLane && activity.isBusy(0) && activity.isBusy(1)))
              rates.push_back(ratesOf(problem.contention, activity));
          }
  return rates;
}

static double sumOf(const LaneShares &shares, const Rates &rates) {
  double sum = 0;
  for (size_t i = 0; i < kNumLaneWorks; ++i)
    sum += shares.weights[i] * rates[i];
  return sum;
}

/// Raises the weight of `work` as far as the rates at every moment allow.
static void raise(LaneShares &shares, LaneWork work, const std::vector<Rates> &moments) {
  double most = 1; // no work is faster than alone
  for (const Rates &rates : moments)
    if (double rate = rates[size_t(work)]; rate > 0)
      most = std::min(most, (1 - sumOf(shares, rates)) / rate);
  shares.weights[size_t(work)] = std::max(0., most);
}

static bool isAtMost(const LaneShares &a, const LaneShares &b) {
  return std::equal(a.weights.begin(), a.weights.end(), b.weights.begin(),
                    [](double of, double most) { return of <= most + 1e-12; });
}

std::vector<LaneShares> fsdp::schedule::findLaneShares(const Problem &problem, BusyLanes busy) {
  constexpr LaneWork c = LaneWork::Compute, x = LaneWork::AcrossBytes;
  constexpr LaneWork gl = LaneWork::GatherLatency, gb = LaneWork::GatherBytes;
  constexpr LaneWork rl = LaneWork::ReduceLatency, rb = LaneWork::ReduceBytes;
  // Weights are raised in this order, so the first weights of an order become the largest.
  static constexpr LaneWork kOrders[][kNumLaneWorks] = {
      {gb, gl, rb, rl, x, c}, {rb, rl, gb, gl, x, c}, {gb, rb, gl, rl, x, c},
      {rb, gb, rl, gl, x, c}, {x, gb, rb, gl, rl, c}, {x, rb, gb, rl, gl, c},
      {c, gb, gl, rb, rl, x}, {c, rb, rl, gb, gl, x}, {c, gb, rb, gl, rl, x},
      {c, rb, gb, rl, gl, x}, {c, x, gb, rb, gl, rl}, {c, x, rb, gb, rl, gl},
      {gb, c, gl, rb, rl, x}, {rb, c, rl, gb, gl, x}, {gb, rb, c, gl, rl, x},
      {rb, gb, c, rl, gl, x}, {x, gb, rb, c, gl, rl}, {x, rb, gb, c, rl, gl}};
  const std::vector<Rates> moments = findRates(problem, busy);
  std::vector<LaneShares> found;
  for (const auto &order : kOrders) {
    LaneShares shares;
    for (LaneWork work : order)
      if (std::ranges::any_of(moments, [&](const Rates &at) { return at[size_t(work)] > 0; }))
        raise(shares, work, moments);
    for (const Rates &rates : moments)
      if (rates[size_t(c)] == 0)
        shares.idleRate = std::max(shares.idleRate, sumOf(shares, rates));
    if (std::ranges::any_of(found,
                            [&](const LaneShares &other) { return isAtMost(shares, other); }))
      continue;
    std::erase_if(found, [&](const LaneShares &other) { return isAtMost(other, shares); });
    found.push_back(shares);
  }
  return found;
}
