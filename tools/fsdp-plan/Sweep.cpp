//===- Sweep.cpp - The best schedules of a step on meshes of many sizes -----===//

#include "Sweep.h"

#include "fsdp/CostModel/Temporaries.h"
#include "fsdp/IR/OptimizerOptions.h"
#include "fsdp/Schedule/Policies.h"
#include "fsdp/Schedule/Simulate.h"
#include "fsdp/Transforms/PrepareSearch.h"
#include "mlir/Pass/PassManager.h"
#include "passes/KernelChoice.h"

#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::plan_tool;

namespace {

/// The scheduling problems of a step on one mesh, one for each placement of the updates.
struct MeshProblems {
  OwningOpRef<ModuleOp> module; // owns the operations that `steps` refers to
  std::optional<StepMemory> memory;
  std::vector<ScheduleProblem> steps;
  cost::Temporaries temporaries; // beside live bytes
  HostPlaces onHost;
  FusionChoice kernels = FusionChoice::Off; // not Auto
  bool areKernelsLeftOut = false;
  bool hasCopies = false; // to and from the host; their placement depends on the cap
};

} // namespace

std::string fsdp::plan_tool::describeMesh(const SweepOptions &options, MeshSize size) {
  std::string mesh = options.axis + "=" + std::to_string(size.shards);
  if (options.replicateAxis.empty())
    return mesh;
  return options.replicateAxis + "=" + std::to_string(size.replicas) + "," + mesh;
}

LogicalResult fsdp::plan_tool::checkIsCaptured(ModuleOp module) {
  auto phase = module->getAttrOfType<ModulePhaseAttr>(FsdpDialect::getPhaseAttrName());
  if (phase && phase.getValue() == ModulePhase::Captured)
    return success();
  return module.emitError("the module is '")
         << (phase ? stringifyModulePhase(phase.getValue()) : "of no phase")
         << "', expected 'captured': another mesh shards it anew";
}

static LogicalResult buildSteps(MeshProblems &mesh, const cost::CostModel &costs,
                                std::optional<int64_t> memoryCapBytes) {
  mesh.steps.clear();
  for (UpdatePlacement placement : {UpdatePlacement::Interleaved, UpdatePlacement::AtEnd}) {
    FailureOr<ScheduleProblem> step =
        getScheduleProblem(*mesh.module, *mesh.memory, costs, placement, memoryCapBytes);
    if (failed(step))
      return failure();
    if (std::optional<std::string> wrong = step->problem.check())
      return mesh.module->emitError("the step is no scheduling problem: ") << *wrong;
    mesh.steps.push_back(std::move(*step));
  }
  return success();
}

/// Shards the captured step on the mesh and with the number of microbatches that `point` gives.
static FailureOr<MeshProblems> shard(ModuleOp captured, const SweepPoint &point,
                                     RecomputePolicy recompute, HostPlaces onHost,
                                     FusionChoice kernels, const cost::CostModel &costs,
                                     const SweepOptions &options) {
  MeshProblems result;
  result.kernels = resolve(kernels, getTarget(captured));
  result.areKernelsLeftOut = kernels != options.fusion;
  result.module = captured.clone();
  PipelineOptions pipeline;
  pipeline.config = options.config;
  pipeline.mesh = describeMesh(options, {point.ranks / point.replicas, point.replicas});
  if (point.microbatches > 1) {
    pipeline.microbatches = point.microbatches;
    pipeline.gradientSync = point.gradientSync;
  }
  pipeline.recompute = recompute;
  auto offload = [](bool is) { return is ? OffloadPolicy::All : OffloadPolicy::None; };
  pipeline.offloadOptimizer = offload(onHost.isState);
  pipeline.offloadActivations = offload(onHost.areActivations);
  pipeline.transport = options.transport;
  pipeline.schedule = ScheduleChoice::Auto;
  pipeline.upTo = ModulePhase::Sharded;
  PassManager manager(captured.getContext());
  buildPipeline(manager, pipeline);
  manager.addPass(createFuse({.fusion = kernels}));
  if (failed(manager.run(*result.module)))
    return failure();
  FailureOr<StepMemory> memory = prepareSearch(*result.module);
  if (failed(memory))
    return failure();
  result.temporaries = cost::findTemporaries(*result.module, costs);
  result.memory = std::move(*memory);
  if (failed(buildSteps(result, costs, std::nullopt)))
    return failure();
  for (auto group : result.module->getOps<GroupOp>()) {
    result.onHost.isState |= group.isStateOnHost();
    result.onHost.areActivations |= group.areActivationsOnHost();
  }
  result.hasCopies = !result.steps.front().hostCopies.empty();
  // A cap of one byte, for which copies are placed so that they take the least memory.
  constexpr int64_t kTightest = 1;
  if (result.hasCopies && failed(buildSteps(result, costs, kTightest)))
    return failure();
  return result;
}

std::pair<int64_t, std::string> fsdp::plan_tool::countItems(ModuleOp captured) {
  for (auto step : captured.getOps<func::FuncOp>())
    for (auto input : step.getOps<InputOp>()) {
      auto type = dyn_cast<RankedTensorType>(input.getResult().getType());
      if (!type || type.getRank() == 0)
        continue;
      if (type.getElementType().isInteger() && type.getRank() >= 2)
        return {type.getNumElements(), "tokens"};
      return {type.getDimSize(0), "samples"};
    }
  return {0, "samples"};
}

double fsdp::plan_tool::getPeakNs(ModuleOp captured, const cost::CostModel &costs) {
  double peakNs = 0;
  captured.walk([&](aten::CallOp call) { peakNs += costs.getPeakNs(call); });
  return peakNs;
}

/// The caps to try if the user gives none: from the least that fits up to the device's memory.
static std::vector<int64_t> chooseCaps(int64_t minimumBytes, int64_t deviceBytes) {
  std::vector<int64_t> caps;
  for (double factor : {1.0, 1.05, 1.15, 1.3, 1.6, 2.0}) {
    auto capBytes = static_cast<int64_t>(factor * static_cast<double>(minimumBytes));
    if (deviceBytes == 0 || capBytes < deviceBytes)
      caps.push_back(capBytes);
  }
  caps.push_back(deviceBytes);
  return caps;
}

static bool hasOptimizerState(ModuleOp module) {
  return llvm::any_of(module.getOps<OptimizerOp>(),
                      [](OptimizerOp op) { return !getStateNames(op).empty(); });
}

static StringRef nameKernels(FusionChoice kernels) {
  return kernels == FusionChoice::Off ? "off" : kernels == FusionChoice::Fast ? "fast" : "exact";
}

static std::string getModuleName(Operation *op) {
  auto ofScope = [](aten::ScopeAttr scope) {
    StringRef module = scope.getModule().getValue();
    return module.empty() ? "root" : module.str();
  };
  if (auto call = dyn_cast_if_present<aten::CallOp>(op))
    return ofScope(call.getScope());
  if (auto launch = dyn_cast_if_present<LaunchOp>(op))
    return ofScope(launch.getScope());
  return op ? describe(op) : "root";
}

static double getComputeNs(const schedule::Problem &problem) {
  return std::accumulate(
      problem.operations.begin(), problem.operations.end(), 0.0,
      [](double sum, const schedule::Operation &operation) { return sum + operation.durationNs; });
}

/// Searches with both placements of updates, and writes the better schedule into `point`.
static LogicalResult search(MeshProblems &mesh, const cost::CostModel &costs,
                            const SweepOptions &options, SweepPoint &point) {
  std::optional<int64_t> capBytes;
  if (point.capBytes > 0)
    capBytes = std::max<int64_t>(0, point.capBytes - mesh.temporaries.scratchBytes);
  if (mesh.hasCopies && failed(buildSteps(mesh, costs, capBytes)))
    return failure();
  for (ScheduleProblem step : mesh.steps) { // a copy, since the plan removes some of its operations
    schedule::Problem &problem = step.problem;
    problem.memoryCapBytes = capBytes;
    if (std::optional<schedule::Plan> plan =
            schedule::planByPolicy(problem, schedule::Policy::Fsdp2)) {
      ScheduleProblem spared = step;
      spared.spareCopies(*plan);
      double ns = schedule::makespanNs(spared.problem, *plan);
      point.fsdp2Ns = std::min(point.fsdp2Ns.value_or(ns), ns);
    }
    schedule::OptimizeOptions optimize;
    optimize.simulationBudget = options.simulationBudget;
    optimize.maxBucketBytes = options.maxBucketBytes;
    optimize.jitter = step.getJitter();
    std::optional<schedule::Outcome> found = schedule::optimize(problem, optimize);
    if (!found)
      continue;
    double boundNs =
        step.hasCopies() ? findBound(step, found->makespanNs).makespanNs : found->bound.makespanNs;
    step.spareCopies(found->plan);
    double stepNs = schedule::makespanNs(problem, found->plan);
    if (point.fits && stepNs >= point.stepNs)
      continue;
    schedule::Timeline timeline = schedule::simulate(problem, found->plan);
    point.fits = true;
    point.stepNs = stepNs;
    point.boundNs = boundNs;
    // The durations of operations include waits for copies to and from the host.
    point.computeNs = getComputeNs(problem) - step.exposedCopyNs;
    point.exposedNs = step.exposedCopyNs;
    for (const std::vector<double> *exposedNs :
         {&timeline.exposedGatherNs, &timeline.exposedReductionNs, &timeline.exposedAcrossNs})
      point.exposedNs += std::accumulate(exposedNs->begin(), exposedNs->end(), 0.0);
    if (optimize.jitter)
      point.jittered = schedule::simulate(problem, found->plan, *optimize.jitter);
    point.peakBytes = schedule::peakOf(problem, found->plan).bytes + mesh.temporaries.scratchBytes;
    point.kept = static_cast<unsigned>(llvm::count(found->plan.kept, 1));
    point.gathers = static_cast<unsigned>(found->plan.gathers.size());
    point.reductions = static_cast<unsigned>(found->plan.reductions.size());
  }
  return success();
}

/// A point that is faster by less than this factor is not worth more memory.
static constexpr double kWorthwhile = 1.002;

static void markPareto(llvm::MutableArrayRef<SweepPoint> points) {
  for (SweepPoint &point : points)
    point.isPareto = point.fits && llvm::none_of(points, [&](const SweepPoint &other) {
                       if (&other == &point || !other.fits)
                         return false;
                       bool isSmaller = other.peakBytes < point.peakBytes;
                       bool isNoLarger = other.peakBytes <= point.peakBytes;
                       double ns = point.getMicrobatchNs(), otherNs = other.getMicrobatchNs();
                       return (isSmaller && otherNs <= ns * kWorthwhile) ||
                              (isNoLarger && otherNs < ns) ||
                              // Of equal points the first is kept.
                              (other.peakBytes == point.peakBytes && otherNs == ns &&
                               &other < &point);
                     });
}

/// Adds a point for each cap; `common` has the fields that they share. `capBytes` is empty if the
/// user gives no caps.
static LogicalResult addPoints(MeshProblems &mesh, const SweepPoint &common,
                               llvm::ArrayRef<int64_t> capBytes, const cost::CostModel &costs,
                               const SweepOptions &options, std::vector<SweepPoint> &points) {
  // Updates between reductions keep the fewest shards in memory.
  ScheduleProblem &leanest = mesh.steps.front();
  schedule::Problem::MinimumPeak minimum = leanest.problem.minimumPeak();
  int64_t minimumBytes = minimum.bytes + mesh.temporaries.scratchBytes;
  std::optional<SweepPoint> previous;
  std::string minimumPlace = getModuleName(leanest.lookup(minimum.operation));
  std::vector<int64_t> caps = capBytes;
  if (caps.empty())
    caps = chooseCaps(minimumBytes,
                      std::max<int64_t>(0, costs.getMemoryBytes() - options.reservedBytes));
  for (int64_t cap : caps) {
    SweepPoint point = common;
    point.onHost = mesh.onHost;
    point.kernels = nameKernels(mesh.kernels);
    point.areKernelsLeftOut = mesh.areKernelsLeftOut;
    point.capBytes = cap;
    point.minimumPeakBytes = minimumBytes;
    point.temporaryBytes = mesh.temporaries.scratchBytes;
    point.areTemporariesKnown = mesh.temporaries.areKnown();
    point.minimumPlace = minimumPlace;
    if (failed(search(mesh, costs, options, point)))
      return failure();
    // A schedule that fits a smaller cap fits this one.
    if (previous && previous->fits && (!point.fits || previous->stepNs < point.stepNs)) {
      std::optional<double> fsdp2Ns = point.fsdp2Ns;
      point = *previous;
      point.capBytes = cap;
      point.fsdp2Ns = fsdp2Ns;
    }
    previous = point;
    points.push_back(std::move(point));
  }
  return success();
}

namespace {

/// Reports the progress of the sweep of one module.
class Progress {
public:
  explicit Progress(const SweepOptions &options) : report(options.progress) {
    for (int64_t microbatches : options.microbatches)
      all += options.meshes.size() * options.recompute.size() *
             (microbatches == 1 ? 1 : options.gradientSync.size());
  }
  void tell(const SweepPoint &next) {
    if (report)
      report(next, done++, all);
  }

private:
  const std::function<void(const SweepPoint &, size_t, size_t)> &report;
  size_t done = 0, all = 0;
};

} // namespace

/// The combinations of host memory to try: the requested one; then, for policies that are `Auto`,
/// each of the two kinds of tensors, and both.
static std::vector<HostPlaces> listPlaces(ModuleOp captured, const SweepOptions &options) {
  std::vector<bool> ofState{options.offload == OffloadPolicy::All};
  if (options.offload == OffloadPolicy::Auto && hasOptimizerState(captured))
    ofState.push_back(true);
  std::vector<bool> ofActivations{options.activations == OffloadPolicy::All};
  if (options.activations == OffloadPolicy::Auto)
    ofActivations.push_back(true);
  std::vector<HostPlaces> places;
  for (bool areActivations : ofActivations)
    for (bool isState : ofState)
      places.push_back({isState, areActivations});
  return places;
}

/// The combinations of kernels and host memory with which a step is tried, in this order.
static std::vector<std::pair<FusionChoice, HostPlaces>> listForms(ModuleOp captured,
                                                                  const SweepOptions &options) {
  std::vector<std::pair<FusionChoice, HostPlaces>> forms;
  for (FusionChoice kernels : listKernelChoices(options.fusion, /*hasCap=*/true))
    for (HostPlaces places : listPlaces(captured, options))
      forms.emplace_back(kernels, places);
  return forms;
}

/// Adds the points for the mesh and the number of microbatches in `common`, by recomputation and
/// cap, each in the first form in which it fits.
static LogicalResult addPoints(ModuleOp captured, SweepPoint common, const cost::CostModel &costs,
                               const SweepOptions &options, Progress &progress,
                               std::vector<SweepPoint> &points) {
  for (const auto &[name, policy] : options.recompute) {
    common.recompute = name;
    progress.tell(common);
    const size_t first = points.size();
    for (auto [kernels, onHost] : listForms(captured, options)) {
      auto ofPolicy = llvm::MutableArrayRef(points).drop_front(first);
      if (!ofPolicy.empty() &&
          llvm::all_of(ofPolicy, [](const SweepPoint &point) { return point.fits; }))
        break;
      FailureOr<MeshProblems> mesh =
          shard(captured, common, policy, onHost, kernels, costs, options);
      if (failed(mesh))
        return failure();
      if (ofPolicy.empty()) {
        if (failed(addPoints(*mesh, common, options.capBytes, costs, options, points)))
          return failure();
        continue;
      }
      for (SweepPoint &point : ofPolicy) {
        std::vector<SweepPoint> moved;
        if (point.fits)
          continue;
        if (failed(addPoints(*mesh, common, point.capBytes, costs, options, moved)))
          return failure();
        if (moved.front().fits || moved.front().minimumPeakBytes < point.minimumPeakBytes)
          point = std::move(moved.front());
      }
    }
  }
  return success();
}

FailureOr<std::vector<SweepPoint>> fsdp::plan_tool::sweep(ModuleOp captured,
                                                          const std::string &model,
                                                          const cost::CostModel &costs,
                                                          const SweepOptions &options) {
  if (failed(checkIsCaptured(captured)))
    return failure();
  SweepPoint common;
  common.model = model;
  auto [items, item] = countItems(captured);
  common.item = item;
  const double peakNs = getPeakNs(captured, costs);
  Progress progress(options);
  std::vector<SweepPoint> points;
  size_t begin = 0; // of the points on as many ranks
  for (MeshSize size : options.meshes) {
    if (size.getRanks() != common.ranks) {
      markPareto(llvm::MutableArrayRef(points).drop_front(begin));
      begin = points.size();
    }
    common.ranks = size.getRanks();
    common.replicas = size.replicas;
    for (int64_t microbatches : options.microbatches) {
      common.microbatches = microbatches;
      common.itemsPerStep = items * common.ranks * microbatches;
      common.peakNs = peakNs * static_cast<double>(microbatches);
      llvm::ArrayRef syncs = options.gradientSync;
      for (const std::string &sync : microbatches == 1 ? syncs.take_front() : syncs) {
        common.gradientSync = microbatches == 1 ? "" : sync;
        if (failed(addPoints(captured, common, costs, options, progress, points)))
          return failure();
      }
    }
  }
  markPareto(llvm::MutableArrayRef(points).drop_front(begin));
  return points;
}
