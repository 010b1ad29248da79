//===- NetworkFile.cpp - Networks as JSON ----------------------------------===//

#include "JsonFile.h"
#include "NetworkPresets.h"
#include "fsdp/CostModel/Network.h"

using namespace fsdp::cost;

static constexpr llvm::StringLiteral kFormat = "fsdp-network";
static constexpr int64_t kVersion = 1;

namespace fsdp::cost {
static bool fromJSON(const llvm::json::Value &value, CollectiveKind &kind, llvm::json::Path path) {
  for (CollectiveKind candidate : {CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
                                   CollectiveKind::AllReduce, CollectiveKind::CopyEngineGather})
    if (value.getAsString() == getName(candidate)) {
      kind = candidate;
      return true;
    }
  path.report("expected all_gather, reduce_scatter, all_reduce or copy_engine_all_gather");
  return false;
}

static bool fromJSON(const llvm::json::Value &value, CollectiveAlgorithm &algorithm,
                     llvm::json::Path path) {
  std::optional<llvm::StringRef> text = value.getAsString();
  if (text != "ring" && text != "hierarchical") {
    path.report("expected ring or hierarchical");
    return false;
  }
  algorithm = text == "ring" ? CollectiveAlgorithm::Ring : CollectiveAlgorithm::Hierarchical;
  return true;
}

static bool fromJSON(const llvm::json::Value &value, NetworkLevel &level, llvm::json::Path path) {
  llvm::json::ObjectMapper object(value, path);
  if (!object || !object.map("name", level.name) || !object.map("units", level.units) ||
      !object.map("hopNs", level.hopNs) || !object.map("treeHopNs", level.treeHopNs) ||
      !object.map("bytesPerSec", level.bytesPerSec) || !object.mapOptional("source", level.source))
    return false;
  return checkAtLeast(level.units, 0, path.field("units")) &&
         checkAtLeast(level.hopNs, 0, path.field("hopNs")) &&
         checkAtLeast(level.treeHopNs.value_or(0), 0, path.field("treeHopNs")) &&
         checkPositive(level.bytesPerSec, path.field("bytesPerSec"));
}

static bool fromJSON(const llvm::json::Value &value, CopyEngines &engines, llvm::json::Path path) {
  llvm::json::ObjectMapper object(value, path);
  if (!object || !object.map("baseNs", engines.baseNs) || !object.map("hopNs", engines.hopNs) ||
      !object.map("bytesPerSec", engines.bytesPerSec) ||
      !object.map("computeContention", engines.computeContention) ||
      !object.mapOptional("source", engines.source))
    return false;
  return checkAtLeast(engines.baseNs, 0, path.field("baseNs")) &&
         checkAtLeast(engines.hopNs, 0, path.field("hopNs")) &&
         checkPositive(engines.bytesPerSec, path.field("bytesPerSec")) &&
         checkAtLeast(engines.computeContention, 1, path.field("computeContention"));
}

static bool fromJSON(const llvm::json::Value &value, Pat &pat, llvm::json::Path path) {
  llvm::json::ObjectMapper object(value, path);
  if (!object || !object.map("baseNs", pat.baseNs) || !object.map("hopNs", pat.hopNs) ||
      !object.map("perRankNs", pat.perRankNs) || !object.map("rateShare", pat.rateShare) ||
      !object.mapOptional("source", pat.source))
    return false;
  if (pat.rateShare > 1) {
    path.field("rateShare").report("expected at most 1");
    return false;
  }
  return checkAtLeast(pat.baseNs, 0, path.field("baseNs")) &&
         checkAtLeast(pat.hopNs, 0, path.field("hopNs")) &&
         checkAtLeast(pat.perRankNs, 0, path.field("perRankNs")) &&
         checkPositive(pat.rateShare, path.field("rateShare"));
}

static bool fromJSON(const llvm::json::Value &value, SizedDuration &duration,
                     llvm::json::Path path) {
  llvm::json::ObjectMapper object(value, path);
  return object && object.map("bytes", duration.size) &&
         object.map("medianNs", duration.medianNs) && object.map("spread", duration.spread) &&
         object.map("samples", duration.samples);
}

/// Checks that sizes are positive and increase, and that medians are positive.
static bool checkRising(const std::vector<SizedDuration> &durations, llvm::json::Path path) {
  int64_t before = 0;
  for (auto [i, duration] : llvm::enumerate(durations)) {
    if (duration.size <= before) {
      path.index(i).field("bytes").report("expected more bytes than before");
      return false;
    }
    if (!checkPositive(duration.medianNs, path.index(i).field("medianNs")) ||
        !checkSpread(duration.spread, path.index(i).field("spread")))
      return false;
    before = duration.size;
  }
  return true;
}

static bool fromJSON(const llvm::json::Value &value, MeasuredCollective &collective,
                     llvm::json::Path path) {
  llvm::json::ObjectMapper object(value, path);
  if (!object || !object.map("kind", collective.kind) || !object.map("ranks", collective.ranks) ||
      !object.map("latencyNs", collective.latencyNs) ||
      !object.map("nsPerByte", collective.nsPerByte) ||
      !object.mapOptional("spread", collective.spread) ||
      !object.mapOptional("durations", collective.durations))
    return false;
  return checkAtLeast(collective.ranks, 2, path.field("ranks")) &&
         checkAtLeast(collective.latencyNs, 0, path.field("latencyNs")) &&
         checkAtLeast(collective.nsPerByte, 0, path.field("nsPerByte")) &&
         checkSpread(collective.spread, path.field("spread")) &&
         checkRising(collective.durations, path.field("durations"));
}

/// Defaults: the factor for reductions is that for gathers, the factor for several collectives the
/// larger of both, the factor for collectives beside computation 1.
static bool mapContention(llvm::json::ObjectMapper &object, schedule::Contention &contention,
                          llvm::json::Path path) {
  if (!object.map("laneContention", contention.lanes) ||
      !object.map("computeContention", contention.gathers))
    return false;
  contention.reductions = contention.gathers;
  if (!object.mapOptional("computeContentionOfReductions", contention.reductions))
    return false;
  const double ofOne = contention.several = std::max(contention.gathers, contention.reductions);
  if (!object.mapOptional("computeContentionOfSeveral", contention.several) ||
      !object.mapOptional("collectiveContention", contention.computation) ||
      !checkAtLeast(contention.gathers, 1, path.field("computeContention")) ||
      !checkAtLeast(contention.reductions, 1, path.field("computeContentionOfReductions")) ||
      !checkAtLeast(contention.several, 1, path.field("computeContentionOfSeveral")) ||
      !checkAtLeast(contention.computation, 1, path.field("collectiveContention")))
    return false;
  if (contention.lanes < 1 || contention.lanes > 2) {
    path.field("laneContention").report("expected a number in [1, 2]");
    return false;
  }
  if (contention.several < ofOne) {
    path.field("computeContentionOfSeveral").report("expected at least that of one collective");
    return false;
  }
  return true;
}

static bool fromJSON(const llvm::json::Value &value, Network &network, llvm::json::Path path) {
  llvm::json::ObjectMapper object(value, path);
  if (!object || !object.map("name", network.name) || !object.map("source", network.source) ||
      !object.mapOptional("algorithm", network.algorithm) ||
      !object.mapOptional("baseNs", network.baseNs) ||
      !object.mapOptional("levels", network.levels) ||
      !object.mapOptional("measured", network.measured) ||
      !object.mapOptional("coalesces", network.coalesces) ||
      !mapContention(object, network.contention, path) ||
      !object.mapOptional("copyEngines", network.copyEngines) ||
      !object.mapOptional("pat", network.pat))
    return false;
  if (network.levels.empty() && network.measured.empty()) {
    path.report("neither levels nor measured collectives");
    return false;
  }
  if (network.levels.empty())
    for (CollectiveKind kind : {CollectiveKind::AllGather, CollectiveKind::ReduceScatter})
      if (llvm::none_of(network.measured,
                        [&](const MeasuredCollective &m) { return m.kind == kind; })) {
        path.field("measured").report("all_gather and reduce_scatter are both needed");
        return false;
      }
  // Only the last level may hold any number of ranks, and it must.
  for (auto [i, level] : llvm::enumerate(network.levels))
    if ((level.units == 0) != (i + 1 == network.levels.size())) {
      path.field("levels").index(i).field("units").report(
          "the last level, and no other, holds any number: 0");
      return false;
    }
  if (network.copyEngines && network.copyEngines->computeContention > network.contention.gathers) {
    path.field("copyEngines")
        .field("computeContention")
        .report("expected at most the computeContention of kernels");
    return false;
  }
  if (network.pat &&
      (network.algorithm != CollectiveAlgorithm::Ring || network.getRanksPerHost() == 0)) {
    path.field("pat").report("needs the algorithm ring, and a level of hosts before another level");
    return false;
  }
  if (!network.copyEngines &&
      llvm::any_of(network.measured, [](const MeasuredCollective &collective) {
        return collective.kind == CollectiveKind::CopyEngineGather;
      })) {
    path.field("measured").report("copy_engine_all_gather needs copyEngines");
    return false;
  }
  return checkAtLeast(network.baseNs, 0, path.field("baseNs"));
}
} // namespace fsdp::cost

llvm::Expected<Network> fsdp::cost::loadNetwork(const std::string &nameOrFile) {
  std::string names;
  for (const Network &preset : getNetworkPresets()) {
    if (preset.name == nameOrFile)
      return preset;
    names += (names.empty() ? "" : ", ") + preset.name;
  }
  if (!llvm::sys::fs::exists(nameOrFile))
    return llvm::createStringError("network '" + nameOrFile + "' is neither a file nor one of " +
                                   names);
  return readJsonFile<Network>("network", nameOrFile, kFormat, kVersion);
}

void fsdp::cost::writeNetwork(const Network &network, llvm::raw_ostream &os) {
  llvm::json::OStream json(os, 2);
  json.object([&] {
    json.attribute("format", kFormat);
    json.attribute("version", kVersion);
    json.attribute("name", network.name);
    json.attribute("source", network.source);
    if (!network.levels.empty()) {
      json.attribute("algorithm",
                     network.algorithm == CollectiveAlgorithm::Ring ? "ring" : "hierarchical");
      json.attribute("baseNs", network.baseNs);
      json.attributeArray("levels", [&] {
        for (const NetworkLevel &level : network.levels)
          json.object([&] {
            json.attribute("name", level.name);
            json.attribute("units", level.units);
            json.attribute("hopNs", level.hopNs);
            if (level.treeHopNs)
              json.attribute("treeHopNs", *level.treeHopNs);
            json.attribute("bytesPerSec", level.bytesPerSec);
            json.attribute("source", level.source);
          });
      });
    }
    json.attributeArray("measured", [&] {
      for (const MeasuredCollective &collective : network.measured)
        json.object([&] {
          json.attribute("kind", getName(collective.kind));
          json.attribute("ranks", collective.ranks);
          json.attribute("latencyNs", collective.latencyNs);
          json.attribute("nsPerByte", collective.nsPerByte);
          json.attribute("spread", collective.spread);
          json.attributeArray("durations", [&] {
            for (const SizedDuration &duration : collective.durations)
              json.object([&] {
                json.attribute("bytes", duration.size);
                json.attribute("medianNs", duration.medianNs);
                json.attribute("spread", duration.spread);
                json.attribute("samples", duration.samples);
              });
          });
        });
    });
    const schedule::Contention &contention = network.contention;
    json.attribute("coalesces", network.coalesces);
    json.attribute("laneContention", contention.lanes);
    json.attribute("computeContention", contention.gathers);
    json.attribute("computeContentionOfReductions", contention.reductions);
    json.attribute("computeContentionOfSeveral", contention.several);
    json.attribute("collectiveContention", contention.computation);
    if (const std::optional<CopyEngines> &engines = network.copyEngines)
      json.attributeObject("copyEngines", [&] {
        json.attribute("baseNs", engines->baseNs);
        json.attribute("hopNs", engines->hopNs);
        json.attribute("bytesPerSec", engines->bytesPerSec);
        json.attribute("computeContention", engines->computeContention);
        json.attribute("source", engines->source);
      });
    if (const std::optional<Pat> &pat = network.pat)
      json.attributeObject("pat", [&] {
        json.attribute("baseNs", pat->baseNs);
        json.attribute("hopNs", pat->hopNs);
        json.attribute("perRankNs", pat->perRankNs);
        json.attribute("rateShare", pat->rateShare);
        json.attribute("source", pat->source);
      });
  });
  os << '\n';
}
