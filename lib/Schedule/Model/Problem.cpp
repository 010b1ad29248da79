//===- Problem.cpp - Is a scheduling problem well formed ------------------===//

#include "fsdp/Schedule/Problem.h"

#include <algorithm>
#include <cmath>
#include <tuple>

using namespace fsdp::schedule;

using Wrong = std::optional<std::string>;

static bool isAmount(double value) { return std::isfinite(value) && value >= 0; }

static std::string outOf(std::string what, uint64_t index, size_t size) {
  return what + " is " + std::to_string(index) + ", expected less than " + std::to_string(size);
}

static Wrong checkOperations(const Problem &problem) {
  for (size_t i = 0; i < problem.operations.size(); ++i) {
    const Operation &operation = problem.operations[i];
    std::string name = "operation " + std::to_string(i);
    if (!isAmount(operation.durationNs))
      return name + " takes " + std::to_string(operation.durationNs) + " ns";
    if (operation.liveBytes < 0)
      return name + " has " + std::to_string(operation.liveBytes) + " live bytes";
    int64_t most = operation.liveBytes;
    if (i > 0)
      most = std::min(most, problem.operations[i - 1].liveBytes);
    if (operation.carriedBytes < 0 || operation.carriedBytes > most)
      return name + " carries " + std::to_string(operation.carriedBytes) +
             " bytes, expected at most the " + std::to_string(most) +
             " that are live while it and the operation before it run";
  }
  return std::nullopt;
}

static Wrong checkUses(const Problem &problem) {
  std::vector<const Use *> previous(problem.groups.size());
  for (size_t i = 0; i < problem.uses.size(); ++i) {
    const Use &use = problem.uses[i];
    std::string name = "use " + std::to_string(i);
    if (use.group >= problem.groups.size())
      return outOf("group of " + name, use.group, problem.groups.size());
    name += " of group '" + problem.groups[use.group].name + "'";
    if (use.first > use.last)
      return name + " begins at operation " + std::to_string(use.first) + " and ends at " +
             std::to_string(use.last);
    if (use.last >= problem.operations.size())
      return outOf("last operation of " + name, use.last, problem.operations.size());
    if (use.storedBy != 0 && use.storedBy < use.last)
      return name + " ends at operation " + std::to_string(use.last) +
             ", although its chunk is stored by operation " + std::to_string(use.storedBy);
    if (use.storedBy >= problem.operations.size())
      return outOf("operation by which a chunk is stored of " + name, use.storedBy,
                   problem.operations.size());
    if (i > 0) {
      const Use &before = problem.uses[i - 1];
      if (std::tie(use.first, use.last) < std::tie(before.first, before.last))
        return name + " begins at operation " + std::to_string(use.first) +
               " and stands after one that begins at " + std::to_string(before.first);
    }
    if (const Use *own = previous[use.group]; own && own->last >= use.first)
      return name + " begins at operation " + std::to_string(use.first) +
             ", although the group's use before it ends at " + std::to_string(own->last);
    previous[use.group] = &use;
  }
  return std::nullopt;
}

static Wrong checkReductions(const Problem &problem) {
  for (size_t i = 0; i < problem.reductions.size(); ++i) {
    const Reduction &reduction = problem.reductions[i];
    std::string name = "reduction " + std::to_string(i);
    if (reduction.group >= problem.groups.size())
      return outOf("group of " + name, reduction.group, problem.groups.size());
    name += " of group '" + problem.groups[reduction.group].name + "'";
    if (reduction.update >= problem.operations.size())
      return outOf("update of " + name, reduction.update, problem.operations.size());
    if (reduction.ready > reduction.update)
      return name + " is ready at position " + std::to_string(reduction.ready) +
             ", after its update at operation " + std::to_string(reduction.update);
    if (reduction.outputBytes < 0 || reduction.outputBytes > reduction.inputBytes)
      return name + " makes " + std::to_string(reduction.outputBytes) + " bytes of " +
             std::to_string(reduction.inputBytes);
    if (i > 0) {
      const Reduction &before = problem.reductions[i - 1];
      if (std::tie(reduction.ready, reduction.update) < std::tie(before.ready, before.update))
        return name + " is ready at position " + std::to_string(reduction.ready) +
               " and stands after one that is ready at " + std::to_string(before.ready);
    }
  }
  return std::nullopt;
}

/// The lower bounds assume that no duration is below the line, and that durations do not fall as
/// bytes grow.
static Wrong checkCost(const CollectiveCost &cost, const std::string &name) {
  if (!isAmount(cost.latencyNs) || !isAmount(cost.nsPerByte))
    return "a " + name + " takes " + std::to_string(cost.latencyNs) + " ns and " +
           std::to_string(cost.nsPerByte) + " ns per byte";
  if (!cost.curve)
    return std::nullopt;
  constexpr double kRounding = 1e-9;
  CurvePoint before;
  for (const CurvePoint &point : cost.curve->getPoints()) {
    const double lineNs = cost.latencyNs + cost.nsPerByte * double(point.bytes);
    if (!isAmount(point.ns) || point.ns < lineNs * (1 - kRounding) || point.ns < before.ns ||
        point.bytes < before.bytes)
      return "a " + name + " of " + std::to_string(point.bytes) + " bytes takes " +
             std::to_string(point.ns) + " ns, one of " + std::to_string(before.bytes) + " bytes " +
             std::to_string(before.ns) + " ns, and the line says at least " +
             std::to_string(lineNs);
    before = point;
  }
  return std::nullopt;
}

static Wrong checkCosts(const Problem &problem) {
  for (const Mesh &mesh : problem.meshes)
    for (auto [cost, name] :
         {std::pair(mesh.gatherCost, "gather"), std::pair(mesh.reduceCost, "reduction"),
          std::pair(mesh.acrossCost.value_or(CollectiveCost()), "reduction over replicas"),
          std::pair(mesh.copyEngineCost.value_or(CollectiveCost()), "gather by copy engines")})
      if (Wrong wrong = checkCost(cost, name))
        return wrong;
  return std::nullopt;
}

static Wrong checkContention(const Problem &problem) {
  const Contention &contention = problem.contention;
  struct Factor {
    const char *name;
    double value, least, most; // no limit: infinity
  };
  const double oneByKernels = std::max(contention.gathers, contention.reductions);
  for (auto [name, value, least, most] :
       {Factor{"of lanes", contention.lanes, 1, 2},
        Factor{"with the lane over replicas", contention.replicas, 1, 2},
        Factor{"of collectives with computation", contention.computation, 1, INFINITY},
        Factor{"of computation with gathers", contention.gathers, 1, INFINITY},
        Factor{"of computation with reductions", contention.reductions, 1, INFINITY},
        Factor{"of computation with several collectives", contention.several, oneByKernels,
               INFINITY},
        Factor{"of computation with copy engines", contention.copyEngines, 1, contention.gathers}})
    if (!(value >= least && value <= most) || std::isinf(value))
      return "contention " + std::string(name) + " is " + std::to_string(value) +
             ", expected a factor " +
             (std::isinf(most) ? "of at least " + std::to_string(least)
                               : "from " + std::to_string(least) + " to " + std::to_string(most));
  return std::nullopt;
}

static Wrong checkGroups(const Problem &problem) {
  for (const Group &group : problem.groups) {
    if (group.gatheredBytes < 0)
      return "group '" + group.name + "' has " + std::to_string(group.gatheredBytes) + " bytes";
    if (group.mesh >= problem.meshes.size())
      return outOf("mesh of group '" + group.name + "'", group.mesh, problem.meshes.size());
    for (const Chunk &chunk : group.chunks) {
      const std::string name = "a chunk of group '" + group.name + "'";
      if (chunk.bytes < 0)
        return name + " has " + std::to_string(chunk.bytes) + " bytes";
      if (!isAmount(chunk.copyNs))
        return name + " takes " + std::to_string(chunk.copyNs) + " ns to copy";
      if (Wrong wrong =
              checkCost(chunk.gatherCost, "gather of chunks of group '" + group.name + "'"))
        return wrong;
    }
  }
  return std::nullopt;
}

Wrong Problem::check() const {
  for (auto part :
       {checkGroups, checkOperations, checkUses, checkReductions, checkCosts, checkContention})
    if (Wrong wrong = part(*this))
      return wrong;
  return std::nullopt;
}

std::vector<double> Problem::reachedNs() const {
  std::vector<double> reached{0};
  for (const Operation &operation : operations)
    reached.push_back(reached.back() + operation.durationNs);
  return reached;
}

std::vector<uint8_t> Problem::events() const {
  std::vector<uint8_t> isEvent(operations.size() + 1);
  for (const Use &use : uses)
    isEvent[use.first] = isEvent[use.last + 1] = 1;
  for (const Reduction &reduction : reductions)
    isEvent[reduction.ready] = isEvent[reduction.update] = 1;
  return isEvent;
}

bool Problem::hasReplicas() const {
  return std::ranges::any_of(meshes, [](const Mesh &mesh) { return mesh.acrossCost.has_value(); });
}

CollectiveCost Mesh::leastGatherCost() const {
  if (!copyEngineCost || copyEngineOnly)
    return copyEngineCost.value_or(gatherCost);
  return {std::min(gatherCost.latencyNs, copyEngineCost->latencyNs),
          std::min(gatherCost.nsPerByte, copyEngineCost->nsPerByte)};
}

bool Problem::hasTransports() const {
  return std::ranges::any_of(
      meshes, [](const Mesh &mesh) { return mesh.copyEngineCost && !mesh.copyEngineOnly; });
}

/// Members may have different costs: the bucket may not be split by cost yet.
template <typename BytesOf, typename CostOf>
static CollectiveDuration durationOf(std::span<const uint32_t> bucket, bool coalesces,
                                     BytesOf bytesOf, CostOf costOf) {
  const CollectiveCost &first = costOf(bucket.front());
  bool isUniform = true;
  int64_t bytes = 0;
  CollectiveDuration together, apart;
  for (uint32_t member : bucket) {
    const CollectiveCost &cost = costOf(member);
    const int64_t memberBytes = bytesOf(member);
    isUniform &= &cost == &first || cost == first;
    bytes += memberBytes;
    const CollectiveDuration alone = cost.of(memberBytes);
    together.latencyNs = std::max(together.latencyNs, alone.latencyNs);
    together.bytesNs += alone.bytesNs;
    apart.latencyNs += alone.latencyNs;
  }
  apart.bytesNs = together.bytesNs;
  return !coalesces ? apart : isUniform ? first.of(bytes) : together;
}

CollectiveDuration Problem::ofGather(std::span<const uint32_t> bucket,
                                     std::span<const uint8_t> chunked, bool byCopyEngine) const {
  return durationOf(
      bucket, coalesces, [&](uint32_t use) { return groupOfUse(use).gatheredBytes; },
      [&](uint32_t use) -> const CollectiveCost & {
        return gatherCostOf(use, chunked.empty() ? uint8_t(0) : chunked[use], byCopyEngine);
      });
}

CollectiveDuration Problem::ofReduction(std::span<const uint32_t> bucket) const {
  return durationOf(
      bucket, coalesces, [&](uint32_t index) { return reductions[index].inputBytes; },
      [&](uint32_t index) -> const CollectiveCost & { return meshOfReduction(index).reduceCost; });
}

CollectiveDuration Problem::ofAcross(std::span<const uint32_t> bucket) const {
  static const CollectiveCost nothing;
  return durationOf(
      bucket, coalesces, [&](uint32_t index) { return reductions[index].outputBytes; },
      [&](uint32_t index) -> const CollectiveCost & {
        const std::optional<CollectiveCost> &cost = meshOfReduction(index).acrossCost;
        return cost ? *cost : nothing;
      });
}

std::vector<int32_t> Problem::previousUses() const {
  std::vector<int32_t> previous(uses.size(), -1), latest(groups.size(), -1);
  for (size_t i = 0; i < uses.size(); ++i) {
    previous[i] = latest[uses[i].group];
    latest[uses[i].group] = int32_t(i);
  }
  return previous;
}

std::vector<int32_t> Problem::nextUses() const {
  std::vector<int32_t> previous = previousUses(), next(uses.size(), -1);
  for (size_t i = 0; i < uses.size(); ++i)
    if (previous[i] >= 0)
      next[previous[i]] = int32_t(i);
  return next;
}

CollectiveCurve::CollectiveCurve(double latencyNs, std::vector<CurvePoint> measured)
    : points(std::move(measured)) {
  points.insert(points.begin(), {0, latencyNs});
}

double CollectiveCurve::durationNs(int64_t bytes) const {
  auto after =
      std::upper_bound(points.begin() + 1, points.end(), bytes,
                       [](int64_t size, const CurvePoint &point) { return size < point.bytes; });
  if (after == points.end())
    return points.back().ns * (double(bytes) / double(points.back().bytes));
  const CurvePoint &before = *(after - 1);
  return before.ns + (after->ns - before.ns) *
                         (double(bytes - before.bytes) / double(after->bytes - before.bytes));
}

/// `cost` with the durations of its curve replaced by `durationOf`.
template <typename DurationOf>
static CollectiveCost withDurations(CollectiveCost cost, DurationOf durationOf) {
  if (!cost.curve)
    return cost;
  std::vector<CurvePoint> points = cost.curve->getPoints();
  for (CurvePoint &point : points)
    point.ns = durationOf(point);
  const double latencyNs = points.front().ns;
  points.erase(points.begin());
  cost.curve = std::make_shared<CollectiveCurve>(latencyNs, std::move(points));
  return cost;
}

CollectiveCost CollectiveCost::scaled(double factor) const {
  return withDurations({latencyNs * factor, nsPerByte * factor, curve},
                       [&](const CurvePoint &point) { return point.ns * factor; });
}

CollectiveCost CollectiveCost::plus(double moreLatencyNs, double moreNsPerByte) const {
  return withDurations({latencyNs + moreLatencyNs, nsPerByte + moreNsPerByte, curve},
                       [&](const CurvePoint &point) {
                         return point.ns + moreLatencyNs + moreNsPerByte * double(point.bytes);
                       });
}
