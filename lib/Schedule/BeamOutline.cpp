//===- BeamOutline.cpp - What is decided before a beam search -------------===//

#include "BeamOutline.h"

#include "HeldMemory.h"
#include "Replay.h"

#include <limits>

using namespace fsdp::schedule;

/// False if they get ready in another order than that of their lane.
static bool launchWhenReady(const Problem &problem, std::vector<ReductionBucket> &reductions) {
  uint32_t last = 0;
  for (ReductionBucket &bucket : reductions) {
    bucket.launch = 0;
    for (uint32_t reduction : bucket.reductions)
      bucket.launch = std::max(bucket.launch, problem.reductions[reduction].ready);
    if (bucket.launch < last)
      return false;
    last = bucket.launch;
  }
  return true;
}

/// On their lane none is waited for before the one ahead of it.
static void waitAtUpdates(const Problem &problem, std::vector<ReductionBucket> &reductions) {
  uint32_t next = UINT32_MAX;
  for (auto bucket = reductions.rbegin(); bucket != reductions.rend(); ++bucket) {
    for (uint32_t reduction : bucket->reductions)
      next = std::min(next, problem.reductions[reduction].update);
    bucket->wait = next;
  }
}

/// By operation: what copies that are launched by then, and used behind it, can take. None if that
/// is negative somewhere. A copy is beside the reductions that are launched between two operations
/// if it is beside both.
static std::optional<std::vector<int64_t>> findRoom(const Problem &problem, Plan plan) {
  for (uint32_t use = 0; use < problem.uses.size(); ++use)
    if (!plan.kept[use])
      plan.gathers.push_back({{use}, problem.uses[use].first});
  const int64_t capBytes = problem.memoryCapBytes.value_or(std::numeric_limits<int64_t>::max());
  std::vector<int64_t> room(problem.operations.size(), capBytes);
  auto take = [&](int64_t bytes, uint32_t operation) {
    room[operation] = std::min(room[operation], capBytes - bytes);
  };
  walkHeldMemory(
      problem, plan,
      [&](int64_t bytes, uint32_t position) { take(bytes, position > 0 ? position - 1 : 0); },
      take);
  return std::any_of(room.begin(), room.end(), [](int64_t bytes) { return bytes < 0; })
             ? std::nullopt
             : std::optional(room);
}

static void addGathers(const SearchSpace &space, const std::vector<int64_t> &room,
                       BeamOutline &outline) {
  outline.bytes.push_back(0);
  for (uint32_t use = 0; use < space.problem.uses.size(); ++use)
    if (!outline.plan.kept[use]) {
      outline.gathers.push_back(use);
      outline.bytes.push_back(outline.bytes.back() + space.bytesOf(use));
    }
  for (int64_t bytes : outline.bytes)
    outline.gatherNs.push_back(space.problem.gatherCost.nsPerByte * double(bytes));

  uint32_t gate = 0;
  for (size_t i = 0; i < outline.gathers.size(); ++i) {
    const uint32_t use = outline.gathers[i];
    const uint32_t earliest = std::max(gate, space.previousUse[use] >= 0 ? space.gapBegin(use) : 0);
    size_t begun = i; // gathers whose uses have begun
    uint32_t position = space.firstOf(use);
    for (; position > earliest; --position) {
      while (begun > 0 && space.firstOf(outline.gathers[begun - 1]) >= position)
        --begun;
      if (outline.bytes[i + 1] - outline.bytes[begun] > room[position - 1])
        break;
    }
    outline.gates.push_back(gate = position);
  }
}

static void addReductions(const Problem &problem, BeamOutline &outline) {
  outline.reducedNs.push_back(0);
  for (const ReductionBucket &bucket : outline.plan.reductions) {
    outline.reductionNs.push_back(NominalDurations{problem}.ofReductions(bucket));
    outline.reducedNs.push_back(outline.reducedNs.back() + outline.reductionNs.back());
  }
}

/// As many gathers as the plan launches in each bucket.
static void addGiven(const SearchSpace &space, const Plan &plan, BeamOutline &outline) {
  for (size_t i = 0; i < outline.gathers.size() && outline.begin == 0; ++i)
    if (space.previousUse[outline.gathers[i]] >= 0)
      outline.begin = outline.gates[i];
  uint32_t end = 0;
  for (const GatherBucket &bucket : plan.gathers) {
    const auto count = std::count_if(bucket.uses.begin(), bucket.uses.end(),
                                     [&](uint32_t use) { return !outline.plan.kept[use]; });
    if (bucket.launch >= outline.begin || count == 0)
      continue;
    end += uint32_t(count);
    outline.given.push_back({bucket.launch, end});
  }
}

/// Operation by operation from the end.
static void addRests(const Problem &problem, BeamOutline &outline) {
  const std::vector<ReductionBucket> &reductions = outline.plan.reductions;
  const double others = problem.laneContention - 1, slow = problem.computeContention;
  std::vector<double> tailNs(outline.end + 1), slowTailNs(outline.end + 1);
  outline.rests.assign(outline.end + 1, {});
  size_t gather = outline.gathers.size(), launch = reductions.size(), wait = reductions.size();
  auto raise = [&](BeamOutline::Rest &rest, double restNs) {
    const double gatherNs = outline.gatherNs[gather], reduceNs = outline.reducedNs[wait];
    rest.afterGathersNs = std::max(rest.afterGathersNs, gatherNs + others * reduceNs + restNs);
    rest.afterReductionsNs =
        std::max(rest.afterReductionsNs, reduceNs + others * gatherNs + restNs);
  };
  raise(outline.rests.back(), 0);
  for (uint32_t i = outline.end; i-- > 0;) {
    const double durationNs = problem.operations[i].durationNs;
    tailNs[i] = durationNs + tailNs[i + 1];
    slowTailNs[i] = slow * durationNs + slowTailNs[i + 1];
    for (; launch > 0 && reductions[launch - 1].launch == i; --launch) {
      const double reduceNs = outline.reductionNs[launch - 1];
      const uint32_t end = reductions[launch - 1].wait;
      tailNs[i] = std::max(tailNs[i], reduceNs + tailNs[end]);
      slowTailNs[i] = std::max(slowTailNs[i], reduceNs + slowTailNs[end]);
    }
    BeamOutline::Rest &rest = outline.rests[i];
    rest = outline.rests[i + 1];
    rest.computeNs += durationNs;
    rest.stallNs = slowTailNs[i] - slow * rest.computeNs;
    while (wait > 0 && reductions[wait - 1].wait > i)
      --wait;
    while (gather > 0 && problem.uses[outline.gathers[gather - 1]].first > i)
      --gather;
    raise(rest, tailNs[i]); // behind what is due here
  }
}

std::optional<BeamOutline> fsdp::schedule::makeOutline(const SearchSpace &space, const Plan &plan,
                                                       const std::vector<uint8_t> &kept,
                                                       bool lateWaits) {
  const Problem &problem = space.problem;
  BeamOutline outline;
  outline.end = problem.operations.size();
  outline.plan.kept = kept;
  std::vector<ReductionBucket> given = plan.reductions;
  if (lateWaits)
    waitAtUpdates(problem, given);
  outline.plan.reductions = given;
  std::optional<std::vector<int64_t>> room;
  if (launchWhenReady(problem, outline.plan.reductions))
    room = findRoom(problem, outline.plan);
  if (!room) {
    outline.plan.reductions = std::move(given);
    room = findRoom(problem, outline.plan);
  }
  if (!room)
    return std::nullopt;
  addGathers(space, *room, outline);
  addReductions(problem, outline);
  addGiven(space, plan, outline);
  addRests(problem, outline);
  return outline;
}

std::optional<BeamOutline> fsdp::schedule::makeBeginning(const Problem &problem,
                                                         const BeamOutline &outline) {
  const size_t count = outline.given.empty() ? 0 : outline.given.back().end;
  const std::vector<ReductionBucket> &reductions = outline.plan.reductions;
  if (count == 0 || problem.uses[outline.gathers[count - 1]].first >= outline.begin ||
      (!reductions.empty() && reductions.front().launch < outline.begin))
    return std::nullopt;
  BeamOutline beginning = outline;
  beginning.begin = 0;
  beginning.end = outline.begin;
  beginning.given.clear();
  beginning.gathers.resize(count);
  beginning.gates.resize(count);
  beginning.bytes.resize(count + 1);
  beginning.gatherNs.resize(count + 1);
  beginning.plan.reductions.clear();
  beginning.reductionNs.clear();
  beginning.reducedNs.resize(1);
  addRests(problem, beginning);
  return beginning;
}
