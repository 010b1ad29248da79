//===- Reports.cpp - A sweep as table, CSV, JSON and page ------------------===//

#include "Reports.h"

#include "PlanPage.h"
#include "Words.h"
#include "fsdp/Explain/Quantities.h"
#include "fsdp/Explain/TextTable.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <cmath>

using namespace fsdp;
using namespace fsdp::explain;
using namespace fsdp::plan_tool;
using llvm::StringRef;
namespace json = llvm::json;
using Align = TextTable::Align;

static std::string formatCap(const SweepPoint &point) {
  return point.request.capBytes > 0 ? formatBytes(point.request.capBytes) : "none";
}

static StringRef getPolicyName(const SweepPoint &point) {
  return stringifyRecomputePolicy(point.request.recompute);
}

/// What is recomputed in which number of groups; of a step that does not fit, the policy.
static std::string describeRecomputed(const SweepPoint &point) {
  return point.step ? point.step->decisions.describeRecomputed() : getPolicyName(point).str();
}

static std::string describeOnHost(const SweepPoint &point) {
  return point.step ? point.step->decisions.describeOnHost() : "-";
}

void fsdp::plan_tool::printTable(llvm::ArrayRef<SweepPoint> points, llvm::raw_ostream &os) {
  if (points.empty())
    return;
  bool hasFsdp2 = llvm::any_of(points, [](const SweepPoint &point) { return point.fsdp2Ns; });
  bool hasJitter = llvm::any_of(
      points, [](const SweepPoint &point) { return point.step && point.step->jittered; });
  auto differ = [&](auto get) {
    return llvm::any_of(points,
                        [&](const SweepPoint &point) { return get(point) != get(points.front()); });
  };
  const bool hasRecompute =
      differ(describeRecomputed) || points.front().request.recompute == RecomputePolicy::Auto;
  const bool hasPlaces = differ(describeOnHost);
  const bool hasKernels = differ([](const SweepPoint &point) { return point.kernels; });
  const bool hasReplicas =
      differ([](const SweepPoint &point) { return point.request.mesh.replicas; });
  const bool hasMicrobatches =
      differ([](const SweepPoint &point) { return point.request.microbatches; });
  const bool hasSyncs = differ([](const SweepPoint &point) { return point.request.gradientSync; });
  std::string rate = points.front().item + "/s";
  // Columns from the peak on, which are empty for a step that does not fit.
  constexpr size_t kNumFigures = 10;
  TextTable table({{"model", Align::Left},
                   {"ranks", Align::Right},
                   {hasReplicas ? "replicas" : "", Align::Right},
                   {hasMicrobatches ? "microbatches" : "", Align::Right},
                   {hasSyncs ? "reduced" : "", Align::Left},
                   {hasRecompute ? "recompute" : "", Align::Left},
                   {hasPlaces ? "on host" : "", Align::Left},
                   {hasKernels ? "kernels" : "", Align::Left},
                   {"cap", Align::Right},
                   {"peak", Align::Right},
                   {"step", Align::Right},
                   {hasJitter ? "95 %" : "", Align::Right},
                   {"exposed", Align::Right},
                   {"/ bound", Align::Right},
                   {hasFsdp2 ? "fsdp2" : "", Align::Right},
                   {rate, Align::Right},
                   {"per rank", Align::Right},
                   {"MFU", Align::Right},
                   {"h / 1e9", Align::Right},
                   {"", Align::Left}});
  for (const SweepPoint &point : points) {
    if (point.step && !point.isPareto)
      continue;
    const PointRequest &request = point.request;
    std::vector<std::string> cells = {point.model,
                                      formatCount(request.mesh.getRanks()),
                                      hasReplicas ? formatCount(request.mesh.replicas) : "",
                                      hasMicrobatches ? formatCount(request.microbatches) : "",
                                      hasSyncs ? request.gradientSync : "",
                                      hasRecompute ? describeRecomputed(point) : "",
                                      hasPlaces ? describeOnHost(point) : "",
                                      hasKernels ? point.kernels : "",
                                      formatCap(point)};
    std::vector<std::string> figures(kNumFigures);
    if (const std::optional<PlannedStep> &step = point.step)
      figures = {formatBytes(step->getNeededBytes()),
                 formatTime(step->stepNs),
                 step->jittered ? formatTime(step->jittered->percentile95Ns) : "",
                 formatTime(step->exposedNs),
                 llvm::formatv("{0:f4}", step->stepNs / step->boundNs).str(),
                 point.fsdp2Ns ? formatTime(*point.fsdp2Ns) : "",
                 formatCount(std::llround(point.getItemsPerSec())),
                 formatCount(std::llround(point.getItemsPerSecAndRank())),
                 formatShare(point.getUtilization()),
                 llvm::formatv("{0:f1}", point.getDeviceHoursPerBillion()).str()};
    llvm::append_range(cells, figures);
    cells.push_back(point.step ? "" : describeRefusal(point.refusal));
    table.addRow(std::move(cells));
  }
  table.print(os);
  auto isUnknown = [](const SweepPoint &point) {
    return point.step && !point.step->areTemporariesKnown;
  };
  if (llvm::any_of(points, isUnknown))
    os << "peaks are without temporaries inside operators that nothing has measured\n";
}

void fsdp::plan_tool::printFastest(llvm::ArrayRef<SweepPoint> points, llvm::raw_ostream &os) {
  std::map<int64_t, const SweepPoint *> fastest; // by ranks
  for (const SweepPoint &point : points) {
    if (!point.step)
      continue;
    const SweepPoint *&best = fastest[point.request.mesh.getRanks()];
    if (!best || point.getItemsPerSec() > best->getItemsPerSec())
      best = &point;
  }
  for (auto [ranks, point] : fastest) {
    const PointRequest &request = point->request;
    os << "fastest on " << formatCount(ranks) << " ranks: " << point->model;
    if (request.mesh.replicas > 1)
      os << ", " << formatCount(request.mesh.replicas) << " replicas";
    os << ", " << describeMicrobatches(request);
    for (const std::string &decision : point->step->decisions.describe())
      os << ", " << decision;
    os << ": " << formatTime(point->step->stepNs) << " a step of "
       << formatCount(point->itemsPerStep) << ' ' << point->item << '\n';
  }
}

/// A file's name may hold characters that CSV reserves.
static std::string toCell(std::string text) {
  for (char &c : text)
    if (c == ',' || c == '"' || c == '\n')
      c = '_';
  return text;
}

void fsdp::plan_tool::writeCsv(llvm::ArrayRef<SweepPoint> points, llvm::raw_ostream &os) {
  os << "model,ranks,recompute,cap_bytes,fits,minimum_peak_bytes,peak_bytes,step_ns,compute_ns,"
        "exposed_ns,mean_ns,percentile95_ns,temporary_bytes,bound_ns,fsdp2_ns,kept,gathers,"
        "reductions,item,items_per_step,items_per_second,pareto,mfu,device_hours_per_1e9_items,"
        "replicas,microbatches,gradient_sync,recomputed,on_host,kernels\n";
  for (const SweepPoint &point : points) {
    const PointRequest &request = point.request;
    const std::optional<PlannedStep> &step = point.step;
    auto ns = [](double value) { return llvm::formatv("{0:f0}", value).str(); };
    std::vector<std::string> cells = {
        toCell(point.model),        std::to_string(request.mesh.getRanks()),
        getPolicyName(point).str(), request.capBytes > 0 ? std::to_string(request.capBytes) : "",
        step ? "1" : "0",           step ? "" : std::to_string(point.refusal.leastBytes)};
    constexpr size_t kNumStepCells = 8;
    if (step)
      llvm::append_range(
          cells, std::vector<std::string>{std::to_string(step->getNeededBytes()), ns(step->stepNs),
                                          ns(step->computeNs), ns(step->exposedNs),
                                          step->jittered ? ns(step->jittered->meanNs) : "",
                                          step->jittered ? ns(step->jittered->percentile95Ns) : "",
                                          std::to_string(step->scratchBytes), ns(step->boundNs)});
    else
      cells.resize(cells.size() + kNumStepCells);
    cells.push_back(point.fsdp2Ns ? ns(*point.fsdp2Ns) : "");
    for (unsigned PlannedStep::*count :
         {&PlannedStep::kept, &PlannedStep::gathers, &PlannedStep::reductions})
      cells.push_back(step ? std::to_string((*step).*count) : "");
    llvm::append_range(
        cells,
        std::vector<std::string>{
            point.item, std::to_string(point.itemsPerStep), step ? ns(point.getItemsPerSec()) : "",
            point.isPareto ? "1" : "0",
            step ? llvm::formatv("{0:f4}", point.getUtilization()).str() : "",
            step ? llvm::formatv("{0:f2}", point.getDeviceHoursPerBillion()).str() : "",
            std::to_string(request.mesh.replicas), std::to_string(request.microbatches),
            request.gradientSync,
            // Several policies of one step are separated by semicolons.
            step ? llvm::join(llvm::split(describeRecomputed(point), ", "), "; ") : "",
            step ? llvm::join(llvm::split(describeOnHost(point), ", "), "; ") : "", point.kernels});
    os << llvm::join(cells, ",") << '\n';
  }
}

static void writeStep(const SweepPoint &point, json::OStream &out) {
  auto toNs = [](double ns) { return static_cast<int64_t>(std::llround(ns)); };
  const PlannedStep &step = *point.step;
  out.attribute("peakBytes", step.getNeededBytes());
  out.attribute("arenaBytes", step.arenaBytes);
  out.attribute("temporaryBytes", step.scratchBytes);
  out.attribute("temporariesKnown", step.areTemporariesKnown);
  out.attributeObject("liveBytes", [&] {
    for (unsigned i = 0; i < kNumMemoryCategories; ++i)
      out.attribute(StringRef(getName(MemoryCategory(i))), step.liveBytes[i]);
  });
  out.attribute("stepNs", toNs(step.stepNs));
  out.attribute("computeNs", toNs(step.computeNs));
  out.attribute("exposedNs", toNs(step.exposedNs));
  out.attribute("boundNs", toNs(step.boundNs));
  if (step.jittered) {
    out.attribute("meanNs", toNs(step.jittered->meanNs));
    out.attribute("percentile95Ns", toNs(step.jittered->percentile95Ns));
  }
  out.attribute("kept", step.kept);
  out.attribute("gathers", step.gathers);
  out.attribute("reductions", step.reductions);
  out.attribute("recomputed", describeRecomputed(point));
  out.attribute("onHost", describeOnHost(point));
  out.attribute("itemsPerSecond", toNs(point.getItemsPerSec()));
  out.attribute("mfu", point.getUtilization());
  out.attribute("deviceHoursPer1e9Items", point.getDeviceHoursPerBillion());
  out.attribute("pareto", point.isPareto);
}

/// The members of a point's object.
static void writePoint(const SweepPoint &point, json::OStream &out) {
  const PointRequest &request = point.request;
  out.attribute("model", point.model);
  out.attribute("ranks", request.mesh.getRanks());
  out.attribute("replicas", request.mesh.replicas);
  out.attribute("microbatches", request.microbatches);
  if (!request.gradientSync.empty())
    out.attribute("gradientSync", request.gradientSync);
  out.attribute("recompute", getPolicyName(point));
  out.attribute("kernels", point.kernels);
  out.attribute("capBytes",
                request.capBytes > 0 ? json::Value(request.capBytes) : json::Value(nullptr));
  out.attribute("item", point.item);
  out.attribute("itemsPerStep", point.itemsPerStep);
  if (point.fsdp2Ns)
    out.attribute("fsdp2Ns", static_cast<int64_t>(std::llround(*point.fsdp2Ns)));
  out.attribute("fits", point.step.has_value());
  if (point.step)
    return writeStep(point, out);
  out.attribute("minimumPeakBytes", point.refusal.leastBytes);
  out.attribute("minimumPeakIn", point.refusal.place);
}

static void writeHeader(const SweepHeader &header, json::OStream &out) {
  out.attribute("device", header.device);
  out.attribute("costs", header.costSources);
  out.attribute("deviceBytes",
                header.deviceBytes > 0 ? json::Value(header.deviceBytes) : json::Value(nullptr));
  if (!header.missing.empty())
    out.attribute("missing", header.missing);
}

void fsdp::plan_tool::writeJson(llvm::ArrayRef<SweepPoint> points, const SweepHeader &header,
                                llvm::raw_ostream &os) {
  json::OStream out(os, /*IndentSize=*/1);
  out.object([&] {
    writeHeader(header, out);
    out.attributeArray("points", [&] {
      for (const SweepPoint &point : points)
        out.object([&] { writePoint(point, out); });
    });
  });
  os << '\n';
}

void fsdp::plan_tool::writeFitsJson(llvm::ArrayRef<Fit> fits, const SweepHeader &header,
                                    const DeviceMemory &memory, llvm::raw_ostream &os) {
  json::OStream out(os, /*IndentSize=*/1);
  out.object([&] {
    writeHeader(header, out);
    out.attribute("fitsBytes", memory.bytes);
    out.attribute("reservedBytes", memory.reservedBytes);
    out.attributeArray("points", [&] {
      for (const Fit &fit : fits)
        out.object([&] {
          writePoint(fit.point, out);
          if (fit.point.step)
            return;
          out.attributeArray("waysOut", [&] {
            for (const WayOut &way : fit.ways)
              out.object([&] {
                out.attribute("change", way.change);
                writePoint(way.point, out);
              });
          });
        });
    });
  });
  os << '\n';
}

void fsdp::plan_tool::writePlanPage(llvm::ArrayRef<SweepPoint> points, const SweepHeader &header,
                                    llvm::raw_ostream &os) {
  std::string data;
  llvm::raw_string_ostream stream(data);
  writeJson(points, header, stream);
  writePageAround(kPlanPage, data, os);
}
