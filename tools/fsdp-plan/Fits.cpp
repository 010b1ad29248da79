//===- Fits.cpp - Whether a step fits a device's memory -------------------===//

#include "Fits.h"

#include "fsdp/Explain/Quantities.h"
#include "fsdp/Explain/TextTable.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::explain;
using namespace fsdp::plan_tool;
using Align = TextTable::Align;

//===----------------------------------------------------------------------===//
// Ways out
//===----------------------------------------------------------------------===//

namespace {

struct Change {
  std::string name; // the flags, or the number of ranks
  PointRequest request;
  bool isOfAll = false; // all changes together
};

} // namespace

/// Each change of policies that leaves more to the search, then all of them together.
static std::vector<Change> listPolicyChanges(const PointRequest &request) {
  std::vector<Change> changes;
  PointRequest all = request;
  auto add = [&](const char *name, auto member, auto value) {
    if (request.*member == value)
      return;
    changes.push_back({name, request});
    changes.back().request.*member = value;
    all.*member = value;
  };
  if (request.recompute != RecomputePolicy::Auto)
    add("--recompute auto", &PointRequest::recompute, RecomputePolicy::Auto);
  if (request.state == OffloadPolicy::None)
    add("--offload-optimizer auto", &PointRequest::state, OffloadPolicy::Auto);
  if (request.activations == OffloadPolicy::None)
    add("--offload-activations auto", &PointRequest::activations, OffloadPolicy::Auto);
  if (request.fusion == FusionChoice::Exact || request.fusion == FusionChoice::Fast)
    add("--fusion auto", &PointRequest::fusion, FusionChoice::Auto);
  if (changes.size() > 1) {
    auto names = llvm::map_range(changes, [](const Change &change) { return change.name; });
    changes.push_back({llvm::join(names, " "), all, /*isOfAll=*/true});
  }
  return changes;
}

/// Plans what would help: each change of policies, all of them if none is enough, and twice, four
/// times or eight times as many ranks, whichever is enough.
static FailureOr<std::vector<WayOut>>
findWays(const PointPlanner &planner, const PointRequest &request, const Listener<Fit> &listener) {
  std::vector<WayOut> ways;
  /// Returns whether the changed step fits.
  auto attempt = [&](const Change &change) -> FailureOr<bool> {
    listener.begins(describe(planner.getModel(), request) + ", with " + change.name);
    FailureOr<SweepPoint> point = planner.plan(change.request);
    if (failed(point))
      return failure();
    ways.push_back({change.name, std::move(*point)});
    return ways.back().point.step.has_value();
  };
  bool isEnough = false;
  for (const Change &change : listPolicyChanges(request)) {
    if (change.isOfAll && isEnough)
      break;
    FailureOr<bool> fits = attempt(change);
    if (failed(fits))
      return failure();
    isEnough |= *fits;
  }
  Change larger{"", request};
  for (int factor : {2, 4, 8}) {
    larger.request.mesh.shards = factor * request.mesh.shards;
    larger.name = formatCount(larger.request.mesh.getRanks()) + " ranks";
    if (larger.request.mesh.getRanks() > kMaxRanks)
      break;
    FailureOr<bool> fits = attempt(larger);
    if (failed(fits))
      return failure();
    if (*fits)
      break;
  }
  llvm::stable_sort(ways, [](const WayOut &a, const WayOut &b) {
    if (!a.point.step || !b.point.step)
      return a.point.step && !b.point.step;
    return a.point.getDeviceHoursPerBillion() < b.point.getDeviceHoursPerBillion();
  });
  return ways;
}

LogicalResult fsdp::plan_tool::findFit(const PointPlanner &planner, PointRequest request,
                                       const DeviceMemory &memory, const Listener<Fit> &listener) {
  request.capBytes = memory.getCapBytes();
  listener.begins(describe(planner.getModel(), request));
  FailureOr<SweepPoint> point = planner.plan(request);
  if (failed(point))
    return failure();
  Fit fit;
  fit.point = std::move(*point);
  if (fit.point.step) {
    listener.found(std::move(fit));
    return success();
  }
  if (std::optional<int64_t> enough = fit.point.refusal.enoughBytes) {
    PointRequest least = request;
    least.capBytes = *enough;
    FailureOr<SweepPoint> found = planner.plan(least);
    if (failed(found))
      return failure();
    fit.least = std::move(found->step);
  }
  FailureOr<std::vector<WayOut>> ways = findWays(planner, request, listener);
  if (failed(ways))
    return failure();
  fit.ways = std::move(*ways);
  listener.found(std::move(fit));
  return success();
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static void printMemory(const PlannedStep &step, const DeviceMemory &memory,
                        llvm::raw_ostream &os) {
  TextTable table({{"", Align::Left}, {"", Align::Right}, {"", Align::Right}});
  auto add = [&](std::string_view name, int64_t bytes) {
    if (bytes != 0)
      table.addRow({std::string(name), formatBytes(bytes),
                    formatShare(static_cast<double>(bytes) / static_cast<double>(memory.bytes))});
  };
  for (unsigned i = 0; i < kNumMemoryCategories; ++i)
    add(getName(MemoryCategory(i)), step.liveBytes[i]);
  add("holes", step.arenaBytes - getTotal(step.liveBytes));
  add("beside the arena", step.scratchBytes);
  add("driver, libraries", memory.reservedBytes);
  const int64_t spareBytes = memory.getCapBytes() - step.getNeededBytes();
  add(spareBytes < 0 ? "missing" : "to spare", std::abs(spareBytes));
  table.print(os, 2);
}

static std::string describeSpeed(const SweepPoint &point) {
  return formatTime(point.step->stepNs) + " a step, " +
         formatCount(std::llround(point.getItemsPerSec())) + ' ' + point.item + "/s, " +
         formatShare(point.getUtilization()) + " MFU";
}

static void printYes(const SweepPoint &point, const DeviceMemory &memory, llvm::raw_ostream &os) {
  const PlannedStep &step = *point.step;
  os << "yes, in " << formatBytes(step.getNeededBytes() + memory.reservedBytes) << " of "
     << formatBytes(memory.bytes) << ", by " << llvm::join(step.decisions.describe(), ", ") << ": "
     << describeSpeed(point) << '\n';
  printMemory(step, memory, os);
  if (!step.areTemporariesKnown)
    os << "  without temporaries inside operators that nothing has measured\n";
}

/// What a smaller microbatch would have to be, if the bytes that grow with it are all that shrinks.
static void printSmallerBatch(const PlannedStep &least, int64_t capBytes, llvm::raw_ostream &os) {
  int64_t growingBytes = 0;
  for (MemoryCategory category :
       {MemoryCategory::Inputs, MemoryCategory::Activations, MemoryCategory::Backward})
    growingBytes += least.liveBytes[static_cast<unsigned>(category)];
  const int64_t leftBytes = capBytes - (least.getNeededBytes() - growingBytes);
  if (growingBytes > 0 && leftBytes > 0)
    os << "  a microbatch of " << formatShare(static_cast<double>(leftBytes) / growingBytes)
       << " of this size would fit, by what its activations take\n";
}

static void printWays(llvm::ArrayRef<WayOut> ways, const DeviceMemory &memory,
                      llvm::raw_ostream &os) {
  if (ways.empty())
    return;
  TextTable table({{"what would help", Align::Left},
                   {"needs", Align::Right},
                   {"step", Align::Right},
                   {ways.front().point.item + "/s", Align::Right},
                   {"per rank", Align::Right},
                   {"recompute", Align::Left},
                   {"on host", Align::Left}});
  for (const auto &[change, point] : ways) {
    if (point.step) {
      table.addRow(
          {change, formatBytes(point.step->getNeededBytes() + memory.reservedBytes),
           formatTime(point.step->stepNs), formatCount(std::llround(point.getItemsPerSec())),
           formatCount(std::llround(point.getItemsPerSecAndRank())),
           point.step->decisions.describeRecomputed(), point.step->decisions.describeOnHost()});
      continue;
    }
    const CapRefusal &refusal = point.refusal;
    int64_t bytes = refusal.enoughBytes.value_or(refusal.leastBytes);
    table.addRow({change, formatBytes(bytes + memory.reservedBytes), "", "", "", "not enough", ""});
  }
  table.print(os, 2);
}

static void printNo(const Fit &fit, const DeviceMemory &memory, llvm::raw_ostream &os) {
  const CapRefusal &refusal = fit.point.refusal;
  os << "no, it needs "
     << formatBytes(refusal.enoughBytes.value_or(refusal.leastBytes) + memory.reservedBytes)
     << " of " << formatBytes(memory.bytes);
  if (!refusal.place.empty())
    os << ", at " << refusal.place;
  if (!fit.ways.empty() && fit.ways.front().point.step)
    os << "; the cheapest way out: " << fit.ways.front().change << ", "
       << describeSpeed(fit.ways.front().point);
  os << '\n';
  if (fit.least) {
    printMemory(*fit.least, memory, os);
    os << "  by " << llvm::join(fit.least->decisions.describe(), ", ") << '\n';
  }
  printWays(fit.ways, memory, os);
  if (fit.least) {
    printSmallerBatch(*fit.least, memory.getCapBytes(), os);
    if (!fit.least->areTemporariesKnown)
      os << "  without temporaries inside operators that nothing has measured\n";
  }
}

void fsdp::plan_tool::printFits(llvm::ArrayRef<Fit> fits, const DeviceMemory &memory,
                                llvm::raw_ostream &os) {
  for (const Fit &fit : fits) {
    const MeshSize mesh = fit.point.request.mesh;
    os << fit.point.model << " on " << formatCount(mesh.getRanks()) << " ranks";
    if (mesh.replicas > 1)
      os << " in " << formatCount(mesh.replicas) << " replicas";
    os << ": ";
    if (fit.point.step)
      printYes(fit.point, memory, os);
    else
      printNo(fit, memory, os);
  }
}
