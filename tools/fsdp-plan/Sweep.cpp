//===- Sweep.cpp - A step on meshes of many sizes under many caps ---------===//

#include "Sweep.h"

#include "Words.h"
#include "fsdp/Explain/Quantities.h"

#include <algorithm>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::explain;
using namespace fsdp::plan_tool;

//===----------------------------------------------------------------------===//
// Requests
//===----------------------------------------------------------------------===//

/// The number of microbatches that make the global batch on this mesh; none if no number does.
static std::optional<int64_t> findMicrobatches(const PointPlanner &planner, MeshSize mesh,
                                               int64_t globalBatch) {
  const int64_t items = planner.getItems() * mesh.getRanks();
  if (items == 0 || globalBatch % items != 0)
    return std::nullopt;
  return globalBatch / items;
}

static std::string explainRefused(const PointPlanner &planner, MeshSize mesh, int64_t globalBatch) {
  const int64_t items = std::max<int64_t>(1, planner.getItems() * mesh.getRanks());
  const int64_t below = globalBatch / items * items;
  return planner.getModel() + " on " + formatCount(mesh.getRanks()) + " ranks: a global batch of " +
         formatCount(globalBatch) + ' ' + planner.getItem() + " is no multiple of " +
         formatCount(mesh.getRanks()) + " x " + formatCount(planner.getItems()) +
         "; the nearest are " + (below > 0 ? formatCount(below) + " and " : "") +
         formatCount(below + items);
}

std::vector<PointRequest> fsdp::plan_tool::listRequests(const PointPlanner &planner,
                                                        const SweepOptions &options,
                                                        std::vector<std::string> &refused) {
  std::vector<PointRequest> requests;
  for (MeshSize mesh : options.meshes) {
    std::vector<int64_t> microbatches = options.microbatches;
    if (options.globalBatch > 0) {
      std::optional<int64_t> found = findMicrobatches(planner, mesh, options.globalBatch);
      if (!found) {
        std::string line = explainRefused(planner, mesh, options.globalBatch);
        if (!llvm::is_contained(refused, line)) // meshes of as many ranks have the same reason
          refused.push_back(std::move(line));
        continue;
      }
      microbatches = {*found};
    }
    for (int64_t number : microbatches) {
      llvm::ArrayRef syncs = options.gradientSync;
      for (const std::string &sync : number == 1 ? syncs.take_front() : syncs)
        for (RecomputePolicy policy : options.recompute)
          requests.push_back({.mesh = mesh,
                              .microbatches = number,
                              .gradientSync = number == 1 ? "" : sync,
                              .recompute = policy,
                              .state = options.state,
                              .activations = options.activations,
                              .chunks = options.chunks,
                              .fusion = options.fusion});
    }
  }
  return requests;
}

//===----------------------------------------------------------------------===//
// Points
//===----------------------------------------------------------------------===//

namespace {

/// Plans the points of one request.
class RequestSweep {
public:
  RequestSweep(const PointPlanner &planner, const PointRequest &request,
               const Listener<SweepPoint> &listener)
      : planner(planner), request(request), fsdp2(planner.planFsdp2(request)), listener(listener) {}

  LogicalResult planUnder(llvm::ArrayRef<int64_t> capBytes);
  LogicalResult planUnderLessAndLess(int64_t deviceBytes);

private:
  FailureOr<std::optional<PlannedStep>> plan(int64_t capBytes);

  const PointPlanner &planner;
  const PointRequest &request;
  const std::optional<PlannedStep> fsdp2;
  const Listener<SweepPoint> &listener;
};

} // namespace

/// Plans a point, and returns its step if it fits.
FailureOr<std::optional<PlannedStep>> RequestSweep::plan(int64_t capBytes) {
  PointRequest capped = request;
  capped.capBytes = capBytes;
  listener.begins(describe(planner.getModel(), capped));
  FailureOr<SweepPoint> point = planner.plan(capped);
  if (failed(point))
    return failure();
  if (fsdp2 && (capBytes == 0 || fsdp2->getNeededBytes() <= capBytes))
    point->fsdp2Ns = fsdp2->stepNs;
  std::optional<PlannedStep> step = point->step;
  listener.found(std::move(*point));
  return step;
}

LogicalResult RequestSweep::planUnder(llvm::ArrayRef<int64_t> capBytes) {
  for (int64_t bytes : capBytes)
    if (failed(plan(bytes)))
      return failure();
  return success();
}

/// The device's memory as a cap, then parts of what the step needs there, until it does not fit.
LogicalResult RequestSweep::planUnderLessAndLess(int64_t deviceBytes) {
  FailureOr<std::optional<PlannedStep>> step = plan(deviceBytes);
  if (failed(step) || !*step)
    return step;
  const auto neededBytes = static_cast<double>((*step)->getNeededBytes());
  for (double part : {0.9, 0.8, 0.7, 0.6, 0.5}) {
    step = plan(static_cast<int64_t>(part * neededBytes));
    if (failed(step) || !*step)
      return step;
  }
  return success();
}

LogicalResult fsdp::plan_tool::sweep(const PointPlanner &planner, const PointRequest &request,
                                     const SweepOptions &options,
                                     const Listener<SweepPoint> &listener) {
  RequestSweep sweep(planner, request, listener);
  return options.capBytes.empty() ? sweep.planUnderLessAndLess(options.deviceBytes)
                                  : sweep.planUnder(options.capBytes);
}

void fsdp::plan_tool::sortByCap(std::vector<SweepPoint> &points) {
  auto getCap = [](const SweepPoint &point) { // no cap comes last
    return static_cast<uint64_t>(point.request.capBytes) - 1;
  };
  llvm::stable_sort(
      points, [&](const SweepPoint &a, const SweepPoint &b) { return getCap(a) < getCap(b); });
  for (size_t i = 1; i < points.size(); ++i) {
    const SweepPoint &smaller = points[i - 1];
    if (!smaller.step || (points[i].step && points[i].step->stepNs <= smaller.step->stepNs))
      continue;
    points[i].step = smaller.step;
    points[i].kernels = smaller.kernels;
  }
}

//===----------------------------------------------------------------------===//
// Pareto-optimal points
//===----------------------------------------------------------------------===//

/// A point that is faster by less than this factor is not worth more memory.
static constexpr double kWorthwhile = 1.002;

/// True if `other` makes `point` useless.
static bool beats(const SweepPoint &other, const SweepPoint &point) {
  const int64_t bytes = point.step->getNeededBytes(), otherBytes = other.step->getNeededBytes();
  const double ns = 1 / point.getItemsPerSec(), otherNs = 1 / other.getItemsPerSec();
  return (otherBytes < bytes && otherNs <= ns * kWorthwhile) ||
         (otherBytes <= bytes && otherNs < ns) ||
         // Of equal points the first is kept.
         (otherBytes == bytes && otherNs == ns && &other < &point);
}

void fsdp::plan_tool::markPareto(llvm::MutableArrayRef<SweepPoint> points, bool isOfGlobalBatch) {
  for (SweepPoint &point : points)
    point.isPareto = point.step && llvm::none_of(points, [&](const SweepPoint &other) {
                       return &other != &point && other.step &&
                              other.request.mesh.getRanks() == point.request.mesh.getRanks() &&
                              (isOfGlobalBatch || other.model == point.model) &&
                              beats(other, point);
                     });
}
