//===- DiffPage.cpp - Two steps as one HTML file --------------------------===//

#include "fsdp/Explain/DiffPage.h"

#include "ComparisonPage.h"
#include "DiffFigures.h"
#include "StepData.h"
#include "fsdp/Explain/MeasuredPairs.h"
#include "fsdp/Explain/Quantities.h"
#include "fsdp/Explain/StepDifference.h"

using namespace fsdp::explain;
namespace json = llvm::json;

namespace {

/// A step of the page; `plan` is null for a measured step.
struct PageSide {
  std::string name;
  const ScheduleView &view;
  const ExplainedPlan *plan;
};

} // namespace

static int64_t toNs(double ns) { return std::llround(ns); }

static void writeDifference(const StepDifference &difference, json::OStream &out) {
  out.object([&] {
    out.attribute("what", difference.what);
    out.attribute("part", int64_t(difference.part));
    out.attribute("names", json::Array(difference.names));
    out.attribute("left", difference.left);
    out.attribute("right", difference.right);
    out.attribute("costs", json::Array{toNs(difference.leftNs), toNs(difference.rightNs)});
    out.attribute("lanes", toNs(difference.laneNs));
    out.attribute("isComputation", difference.isComputation);
    out.attribute("collectives", json::Array{json::Array(difference.leftCollectives),
                                             json::Array(difference.rightCollectives)});
  });
}

static void writePageOfTwo(const PageSide &left, const PageSide &right,
                           const std::vector<Fact> &facts, const StepComparison &comparison,
                           llvm::raw_ostream &os) {
  std::string data;
  llvm::raw_string_ostream stream(data);
  json::OStream out(stream);
  out.object([&] {
    out.attributeArray("steps", [&] {
      for (const PageSide *side : {&left, &right})
        out.object([&] {
          out.attribute("name", side->name);
          writeStepData(side->view, side->plan, out);
        });
    });
    out.attributeArray("facts", [&] {
      for (const Fact &fact : facts)
        out.value(json::Array{fact.name, fact.left, fact.right});
    });
    out.attributeArray("pairs", [&] {
      for (auto [a, b] : comparison.pairs)
        out.value(json::Array{a, b});
    });
    out.attribute("same", toNs(comparison.sameNs));
    out.attributeArray("differences", [&] {
      for (const StepDifference &difference : comparison.differences)
        writeDifference(difference, out);
    });
  });
  writePageAround(kComparisonPage, data, os);
}

void fsdp::explain::writeDiffPage(const NamedPlan &left, const NamedPlan &right,
                                  llvm::raw_ostream &os) {
  auto sideOf = [](const NamedPlan &named) {
    return ScheduleSide{named.name, named.plan.problem, named.plan.plan, named.plan.view};
  };
  writePageOfTwo({left.name, left.plan.view, &left.plan},
                 {right.name, right.plan.view, &right.plan}, findFacts(sideOf(left), sideOf(right)),
                 compareSteps(sideOf(left), sideOf(right)), os);
}

/// The differences between measured and predicted times of blocks and collectives.
static StepComparison compareWithMeasured(const ScheduleView &predicted,
                                          const std::vector<BlockTimes> &blocks,
                                          const std::vector<CollectiveTimes> &collectives) {
  StepComparison comparison;
  for (const BlockTimes &times : blocks) {
    StepDifference difference;
    difference.what = "computation";
    difference.part = times.part;
    difference.names = {times.name};
    difference.left = formatTime(times.predictedNs);
    difference.right = formatTime(times.getMeasuredNs());
    difference.leftNs = times.predictedNs;
    difference.rightNs = times.getMeasuredNs();
    difference.isComputation = true;
    comparison.differences.push_back(std::move(difference));
  }
  uint32_t index = 0;
  for (const CollectiveTimes &times : collectives) {
    index += !times.isAcross;
    const CollectiveView &collective = predicted.collectives[index - 1];
    auto describe = [](double ns, double exposedNs) {
      return formatTime(ns) + ", exposed " + formatTime(exposedNs);
    };
    StepDifference difference;
    difference.what = times.isAcross                                 ? "all-reduce"
                      : collective.kind == CollectiveKind::AllGather ? "gather"
                                                                     : "reduction";
    difference.part = times.part;
    difference.names = collective.groups;
    difference.left = describe(times.predictedNs, times.exposed.predictedNs);
    difference.right = describe(times.getMeasuredNs(), times.exposed.getMeasuredNs());
    difference.leftNs = times.exposed.predictedNs;
    difference.rightNs = times.exposed.getMeasuredNs();
    difference.laneNs = times.getMeasuredNs() - times.predictedNs;
    difference.leftCollectives = difference.rightCollectives = {index - 1};
    comparison.differences.push_back(std::move(difference));
    if (!times.isAcross)
      comparison.pairs.emplace_back(index - 1, index - 1);
  }
  llvm::erase_if(comparison.differences, [](const StepDifference &difference) {
    return toNs(difference.getChangeNs()) == 0 && toNs(difference.laneNs) == 0;
  });
  sortByCost(comparison.differences);
  return comparison;
}

llvm::Error fsdp::explain::writeMeasuredPage(const ExplainedPlan &predicted,
                                             const MeasuredRun &measured, llvm::raw_ostream &os) {
  llvm::Expected<std::vector<CollectiveTimes>> collectives =
      pairCollectives(predicted.view, measured);
  if (!collectives)
    return collectives.takeError();
  StepComparison comparison = compareWithMeasured(
      predicted.view, pairBlocks(predicted.problem, predicted.view, measured), *collectives);
  ScheduleView view = viewMedianStep(predicted.view, measured, *collectives);
  writePageOfTwo({"predicted", predicted.view, &predicted}, {"measured", view, nullptr}, {},
                 comparison, os);
  return llvm::Error::success();
}
