//===- Reports.cpp - A sweep as table, CSV, JSON and page ------------------===//

#include "Reports.h"

#include "PlanPage.h"
#include "fsdp/Explain/Quantities.h"
#include "fsdp/Explain/TextTable.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <cmath>

using namespace fsdp::explain;
using namespace fsdp::plan_tool;
namespace json = llvm::json;
using Align = TextTable::Align;

static const char *describePlaces(HostPlaces onHost) {
  if (onHost.isState && onHost.areActivations)
    return "state, activations";
  return onHost.isState ? "state" : onHost.areActivations ? "activations" : "-";
}

static const char *getPolicy(bool isOnHost) { return isOnHost ? "all" : "none"; }

static std::string formatCap(const SweepPoint &point) {
  return point.capBytes > 0 ? formatBytes(point.capBytes) : "none";
}

void fsdp::plan_tool::printTable(llvm::ArrayRef<SweepPoint> points, llvm::raw_ostream &os) {
  if (points.empty())
    return;
  bool hasFsdp2 = llvm::any_of(points, [](const SweepPoint &point) { return point.fsdp2Ns; });
  bool hasJitter = llvm::any_of(points, [](const SweepPoint &point) { return !!point.jittered; });
  auto differ = [&](auto member) {
    return llvm::any_of(
        points, [&](const SweepPoint &point) { return point.*member != points.front().*member; });
  };
  const bool hasPolicies = differ(&SweepPoint::recompute);
  const bool hasPlaces = differ(&SweepPoint::onHost);
  const bool hasKernels =
      llvm::any_of(points, [](const SweepPoint &point) { return point.areKernelsLeftOut; });
  const bool hasReplicas = differ(&SweepPoint::replicas);
  const bool hasMicrobatches = differ(&SweepPoint::microbatches);
  const bool hasSyncs = differ(&SweepPoint::gradientSync);
  std::string rate = points.front().item + "/s";
  // Columns from the peak on, which are empty for a step that does not fit.
  constexpr size_t kNumFigures = 10;
  TextTable table({{"model", Align::Left},
                   {"ranks", Align::Right},
                   {hasReplicas ? "replicas" : "", Align::Right},
                   {hasMicrobatches ? "microbatches" : "", Align::Right},
                   {hasSyncs ? "reduced" : "", Align::Left},
                   {hasPolicies ? "recompute" : "", Align::Left},
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
    if (point.fits && !point.isPareto)
      continue;
    std::vector<std::string> cells = {point.model,
                                      formatCount(point.ranks),
                                      hasReplicas ? formatCount(point.replicas) : "",
                                      hasMicrobatches ? formatCount(point.microbatches) : "",
                                      hasSyncs ? point.gradientSync : "",
                                      hasPolicies ? point.recompute : "",
                                      hasPlaces ? describePlaces(point.onHost) : "",
                                      hasKernels ? point.kernels : "",
                                      formatCap(point)};
    std::vector<std::string> figures(kNumFigures);
    if (point.fits) {
      double itemsPerSec = point.getItemsPerSec();
      figures = {formatBytes(point.peakBytes),
                 formatTime(point.stepNs),
                 point.jittered ? formatTime(point.jittered->percentile95Ns) : "",
                 formatTime(point.exposedNs),
                 llvm::formatv("{0:f4}", point.stepNs / point.boundNs).str(),
                 point.fsdp2Ns ? formatTime(*point.fsdp2Ns) : "",
                 formatCount(std::llround(itemsPerSec)),
                 formatCount(std::llround(itemsPerSec / static_cast<double>(point.ranks))),
                 formatShare(point.getUtilization()),
                 llvm::formatv("{0:f1}", point.getDeviceHoursPerBillion()).str()};
    }
    llvm::append_range(cells, figures);
    cells.push_back(point.fits ? ""
                               : "does not fit: " + formatBytes(point.minimumPeakBytes) +
                                     " at least, in " + point.minimumPlace);
    table.addRow(std::move(cells));
  }
  table.print(os);
  auto isUnknown = [](const SweepPoint &point) { return !point.areTemporariesKnown; };
  if (llvm::any_of(points, isUnknown))
    os << "peaks are without temporaries inside operators that nothing has measured\n";
}

void fsdp::plan_tool::writeCsv(llvm::ArrayRef<SweepPoint> points, llvm::raw_ostream &os) {
  os << "model,ranks,recompute,cap_bytes,fits,minimum_peak_bytes,peak_bytes,step_ns,compute_ns,"
        "exposed_ns,"
        "mean_ns,percentile95_ns,temporary_bytes,bound_ns,fsdp2_ns,kept,gathers,reductions,item,"
        "items_per_step,items_per_second,pareto,offload_optimizer,"
        "mfu,device_hours_per_1e9_items,replicas,microbatches,gradient_sync,offload_activations,"
        "kernels\n";
  for (const SweepPoint &point : points) {
    // A file's name may hold characters that CSV reserves.
    std::string model = point.model;
    for (char &c : model)
      if (c == ',' || c == '"' || c == '\n')
        c = '_';
    os << model << ',' << point.ranks << ',' << point.recompute << ','
       << (point.capBytes > 0 ? std::to_string(point.capBytes) : "") << ',' << point.fits << ','
       << point.minimumPeakBytes << ',';
    if (point.fits)
      os << llvm::formatv("{0},{1:f0},{2:f0},{3:f0},", point.peakBytes, point.stepNs,
                          point.computeNs, point.exposedNs);
    else
      os << ",,,,";
    os << (point.jittered ? llvm::formatv("{0:f0},{1:f0},", point.jittered->meanNs,
                                          point.jittered->percentile95Ns)
                                .str()
                          : ",,")
       << point.temporaryBytes << ','
       << (point.fits ? llvm::formatv("{0:f0},", point.boundNs).str() : ",");
    os << (point.fsdp2Ns ? llvm::formatv("{0:f0}", *point.fsdp2Ns).str() : "") << ',';
    if (point.fits)
      os << point.kept << ',' << point.gathers << ',' << point.reductions << ',';
    else
      os << ",,,";
    os << point.item << ',' << point.itemsPerStep << ','
       << (point.fits ? llvm::formatv("{0:f0}", point.getItemsPerSec()).str() : "") << ','
       << point.isPareto << ',' << getPolicy(point.onHost.isState) << ','
       << (point.fits ? llvm::formatv("{0:f4},{1:f2}", point.getUtilization(),
                                      point.getDeviceHoursPerBillion())
                            .str()
                      : ",")
       << ',' << point.replicas << ',' << point.microbatches << ',' << point.gradientSync << ','
       << getPolicy(point.onHost.areActivations) << ',' << point.kernels << '\n';
  }
}

static void writePoint(const SweepPoint &point, json::OStream &out) {
  auto toNs = [](double ns) { return static_cast<int64_t>(std::llround(ns)); };
  out.object([&] {
    out.attribute("model", point.model);
    out.attribute("ranks", point.ranks);
    out.attribute("replicas", point.replicas);
    out.attribute("microbatches", point.microbatches);
    if (!point.gradientSync.empty())
      out.attribute("gradientSync", point.gradientSync);
    out.attribute("recompute", point.recompute);
    out.attribute("offloadOptimizer", getPolicy(point.onHost.isState));
    out.attribute("offloadActivations", getPolicy(point.onHost.areActivations));
    out.attribute("kernels", point.kernels);
    out.attribute("capBytes",
                  point.capBytes > 0 ? json::Value(point.capBytes) : json::Value(nullptr));
    out.attribute("fits", point.fits);
    out.attribute("minimumPeakBytes", point.minimumPeakBytes);
    out.attribute("minimumPeakIn", point.minimumPlace);
    out.attribute("temporaryBytes", point.temporaryBytes);
    out.attribute("temporariesKnown", point.areTemporariesKnown);
    out.attribute("item", point.item);
    out.attribute("itemsPerStep", point.itemsPerStep);
    if (point.fsdp2Ns)
      out.attribute("fsdp2Ns", toNs(*point.fsdp2Ns));
    if (!point.fits)
      return;
    out.attribute("peakBytes", point.peakBytes);
    out.attribute("stepNs", toNs(point.stepNs));
    out.attribute("computeNs", toNs(point.computeNs));
    out.attribute("exposedNs", toNs(point.exposedNs));
    out.attribute("boundNs", toNs(point.boundNs));
    if (point.jittered) {
      out.attribute("meanNs", toNs(point.jittered->meanNs));
      out.attribute("percentile95Ns", toNs(point.jittered->percentile95Ns));
    }
    out.attribute("kept", point.kept);
    out.attribute("gathers", point.gathers);
    out.attribute("reductions", point.reductions);
    out.attribute("itemsPerSecond", toNs(point.getItemsPerSec()));
    out.attribute("mfu", point.getUtilization());
    out.attribute("deviceHoursPer1e9Items", point.getDeviceHoursPerBillion());
    out.attribute("pareto", point.isPareto);
  });
}

void fsdp::plan_tool::writeJson(llvm::ArrayRef<SweepPoint> points, const SweepHeader &header,
                                llvm::raw_ostream &os) {
  json::OStream out(os, /*IndentSize=*/1);
  out.object([&] {
    out.attribute("device", header.device);
    out.attribute("costs", header.costSources);
    out.attribute("deviceBytes",
                  header.deviceBytes > 0 ? json::Value(header.deviceBytes) : json::Value(nullptr));
    out.attributeArray("points", [&] {
      for (const SweepPoint &point : points)
        writePoint(point, out);
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
