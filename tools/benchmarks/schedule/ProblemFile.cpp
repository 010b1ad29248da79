//===- ProblemFile.cpp - Scheduling problems as JSON ----------------------===//

#include "ProblemFile.h"

#include <nlohmann/json.hpp>

#include <fstream>

using namespace fsdp::schedule;
using nlohmann::json;

/// An empty optional is null.
template <typename T> struct nlohmann::adl_serializer<std::optional<T>> {
  static void to_json(json &file, const std::optional<T> &value) {
    file = value ? json(*value) : json();
  }
  static void from_json(const json &file, std::optional<T> &value) {
    value.reset();
    if (!file.is_null())
      value = file.get<T>();
  }
};

namespace fsdp::schedule {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Operation, durationNs, liveBytes, carriedBytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Use, group, first, last, storedBy)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Reduction, group, ready, update, inputBytes, outputBytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CurvePoint, bytes, ns)

static void to_json(json &file, const CollectiveCost &cost) {
  file = {{"latencyNs", cost.latencyNs}, {"nsPerByte", cost.nsPerByte}};
  if (cost.curve)
    file["curve"] = cost.curve->getPoints();
}

static void from_json(const json &file, CollectiveCost &cost) {
  cost = {file.at("latencyNs"), file.at("nsPerByte")};
  if (!file.contains("curve"))
    return;
  std::vector<CurvePoint> points = file.at("curve");
  const double latencyNs = points.at(0).ns;
  points.erase(points.begin());
  cost.curve = std::make_shared<CollectiveCurve>(latencyNs, std::move(points));
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Chunk, ranks, bytes, copyNs, gatherCost, isOnHost)
NLOHMANN_JSON_SERIALIZE_ENUM(KeepRule, {{KeepRule::Free, "free"},
                                        {KeepRule::Never, "never"},
                                        {KeepRule::Always, "always"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Mesh, gatherCost, reduceCost, acrossCost, copyEngineCost,
                                   copyEngineOnly)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Group, name, gatheredBytes, keep, chunks, mesh)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Contention, lanes, replicas, computation, gathers, reductions,
                                   several, copyEngines)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Problem, operations, groups, uses, reductions, meshes, oneLane,
                                   coalesces, onGpus, contention)
} // namespace fsdp::schedule

std::optional<std::string> fsdp::benchmark::writeProblem(const Problem &problem,
                                                         const std::string &path) {
  std::ofstream file(path);
  file << json(problem).dump() << "\n";
  if (!file.flush())
    return "cannot write '" + path + "'";
  return std::nullopt;
}

std::optional<std::string> fsdp::benchmark::readProblem(const std::string &path, Problem &problem) {
  std::ifstream file(path);
  if (!file)
    return "cannot read '" + path + "'";
  try {
    problem = json::parse(file).get<Problem>();
  } catch (const json::exception &error) {
    return "'" + path + "' is no scheduling problem: " + error.what();
  }
  if (std::optional<std::string> wrong = problem.check())
    return "'" + path + "': " + *wrong;
  return std::nullopt;
}
