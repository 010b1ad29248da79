//===- DiffFigures.cpp - Figures and facts of two steps -------------------===//

#include "DiffFigures.h"

#include "fsdp/Explain/Quantities.h"
#include "llvm/Support/FormatVariadic.h"

#include <functional>
#include <map>

using namespace fsdp::explain;
using namespace fsdp::schedule;

std::string fsdp::explain::formatChange(double left, double right) {
  if (left == right)
    return "=";
  if (left == 0)
    return "";
  return llvm::formatv("{0}{1:f2} %", right > left ? "+" : "", 100 * (right / left - 1));
}

std::vector<Figure> fsdp::explain::getFigures(const ScheduleView &left, const ScheduleView &right) {
  std::vector<Figure> figures;
  auto add = [&](const char *name, const char *key, auto get, auto format) {
    auto a = std::invoke(get, left), b = std::invoke(get, right);
    figures.push_back(
        {name, key, static_cast<double>(a), static_cast<double>(b), format(a), format(b)});
  };
  auto bytesOf = [](CollectiveKind kind) {
    return [kind](const ScheduleView &view) {
      int64_t sum = 0;
      for (const CollectiveView &collective : view.collectives)
        sum += collective.kind == kind ? collective.sizeBytes : 0;
      return sum;
    };
  };
  auto countOf = [](CollectiveKind kind) {
    return [kind](const ScheduleView &view) {
      return static_cast<int64_t>(std::count_if(view.collectives.begin(), view.collectives.end(),
                                                [&](const auto &c) { return c.kind == kind; }));
    };
  };
  auto exposedOf = [](CollectiveKind kind) {
    return [kind](const ScheduleView &view) { return view.getExposedNs(kind); };
  };
  constexpr CollectiveKind kGather = CollectiveKind::AllGather,
                           kReduce = CollectiveKind::ReduceScatter;
  add("predicted time", "stepNs", &ScheduleView::makespanNs, formatTime);
  add("compute", "computeNs", &ScheduleView::getComputeNs, formatTime);
  add("waiting for gathers", "exposedGatherNs", exposedOf(kGather), formatTime);
  add("waiting for reductions", "exposedReductionNs", exposedOf(kReduce), formatTime);
  if (left.hasReplicas() || right.hasReplicas())
    add("waiting for replicas", "exposedAcrossNs", &ScheduleView::getExposedAcrossNs, formatTime);
  if (!left.hostCopies.empty() || !right.hostCopies.empty()) {
    add("waiting for the host", "exposedCopyNs", &ScheduleView::getExposedCopyNs, formatTime);
    add(
        "copied to the host", "hostBytes",
        [](const ScheduleView &view) {
          int64_t bytes = 0;
          for (const HostCopyView &copy : view.hostCopies)
            bytes += copy.sizeBytes;
          return bytes;
        },
        formatBytes);
  }
  add("peak memory", "peakBytes", &ScheduleView::getPeakBytes, formatBytes);
  add("gathered", "gatheredBytes", bytesOf(kGather), formatBytes);
  add("reduced", "reducedBytes", bytesOf(kReduce), formatBytes);
  add("gathers", "gathers", countOf(kGather), formatCount);
  add("reductions", "reductions", countOf(kReduce), formatCount);
  return figures;
}

std::vector<Fact> fsdp::explain::findFacts(const ScheduleSide &left, const ScheduleSide &right) {
  auto factsOf = [](const ScheduleSide &side) {
    std::map<std::string, std::string> facts(side.view.labels.facts.begin(),
                                             side.view.labels.facts.end());
    facts["lanes"] =
        side.problem.oneLane || side.plan.shareLane ? "one for all collectives" : "gather, reduce";
    return facts;
  };
  std::map<std::string, std::string> a = factsOf(left), b = factsOf(right);
  for (const auto &[key, value] : b)
    a.try_emplace(key);
  std::vector<Fact> differing;
  for (const auto &[key, value] : a)
    if (value != b[key])
      differing.push_back({key, value, b[key]});
  return differing;
}
