//===- PlanStep.cpp - Compiles a point as fsdpc does ----------------------===//

#include "PlanStep.h"

#include "fsdp/CostModel/Temporaries.h"
#include "fsdp/Explain/ExplainModule.h"
#include "mlir/Pass/PassManager.h"
#include "passes/KernelChoice.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::explain;
using namespace fsdp::plan_tool;

static std::pair<int64_t, std::string> countItems(ModuleOp captured) {
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

static std::string describeMesh(const PlanSettings &settings, MeshSize size) {
  std::string mesh = settings.axis + "=" + std::to_string(size.shards);
  if (settings.replicateAxis.empty())
    return mesh;
  return settings.replicateAxis + "=" + std::to_string(size.replicas) + "," + mesh;
}

static StringRef nameKernels(FusionChoice kernels) {
  return kernels == FusionChoice::Off ? "off" : kernels == FusionChoice::Fast ? "fast" : "exact";
}

static GroupDecisions collectDecisions(ModuleOp planned) {
  GroupDecisions decisions;
  for (auto group : planned.getOps<GroupOp>()) {
    ++decisions.numGroups;
    ++decisions.recomputed[group.getRecomputed().value_or(RecomputePolicy::None)];
    decisions.stateOnHost += group.isStateOnHost();
    decisions.activationsOnHost += group.areActivationsOnHost();
  }
  llvm::StringSet<> chunked;
  planned.walk([&](AllGatherStartOp gather) {
    if (gather.isFromHost())
      chunked.insert(gather.getGroup());
  });
  decisions.chunksOnHost = chunked.size();
  return decisions;
}

PointPlanner::PointPlanner(ModuleOp captured, std::string model, const cost::CostModel &costs,
                           const PlanSettings &settings)
    : captured(captured), model(std::move(model)), costs(costs), settings(settings), peakNs(0) {
  std::tie(items, item) = countItems(captured);
  captured.walk([&](aten::CallOp call) {
    costs.getCost(call); // so that the model's sources of costs include those of this step
    peakNs += costs.getPeakNs(call);
  });
}

FailureOr<PointPlanner> PointPlanner::create(ModuleOp captured, std::string model,
                                             const cost::CostModel &costs,
                                             const PlanSettings &settings) {
  auto phase = captured->getAttrOfType<ModulePhaseAttr>(FsdpDialect::getPhaseAttrName());
  if (!phase || phase.getValue() != ModulePhase::Captured)
    return captured.emitError("the module is '")
           << (phase ? stringifyModulePhase(phase.getValue()) : "of no phase")
           << "', expected 'captured': another mesh shards it anew";
  return PointPlanner(captured, std::move(model), costs, settings);
}

LogicalResult PointPlanner::compile(ModuleOp module, ScheduleChoice schedule,
                                    const PointRequest &request) const {
  const bool isSearched = schedule == ScheduleChoice::Auto;
  auto decide = [&](OffloadPolicy policy) {
    const bool isOpen = policy == OffloadPolicy::Auto && (!isSearched || request.capBytes == 0);
    return isOpen ? OffloadPolicy::None : policy;
  };
  PipelineOptions pipeline;
  pipeline.config = settings.config;
  pipeline.mesh = describeMesh(settings, request.mesh);
  if (request.microbatches > 1) {
    pipeline.microbatches = request.microbatches;
    pipeline.gradientSync = request.gradientSync;
  }
  pipeline.recompute = request.recompute;
  pipeline.offloadOptimizer = decide(request.state);
  pipeline.offloadActivations = decide(request.activations);
  pipeline.offloadChunks = decide(request.chunks);
  pipeline.fusion = request.fusion;
  pipeline.transport = !isSearched && settings.transport == Transport::Auto ? Transport::Kernels
                                                                            : settings.transport;
  pipeline.schedule = schedule;
  if (isSearched) {
    pipeline.budget = settings.simulationBudget;
    pipeline.maxBucketSize = std::to_string(settings.maxBucketBytes);
    pipeline.memoryCap = std::to_string(request.capBytes);
  }
  pipeline.device = settings.costs.device;
  pipeline.profile = settings.costs.profile;
  pipeline.network = settings.costs.network;
  pipeline.computeJitter = settings.costs.computeJitter;
  pipeline.networkJitter = settings.costs.networkJitter;
  PassManager manager(module.getContext());
  buildPipeline(manager, pipeline);
  return manager.run(module);
}

FailureOr<PlannedStep> PointPlanner::describe(ModuleOp planned, int64_t capBytes) const {
  PlannedStep step;
  step.arenaBytes = planned->getAttrOfType<IntegerAttr>(FsdpDialect::getArenaAttrName()).getInt();
  cost::Temporaries temporaries = cost::findTemporaries(planned, costs);
  step.scratchBytes = temporaries.scratchBytes;
  step.areTemporariesKnown = temporaries.areKnown();
  ExplainOptions options;
  if (capBytes > 0)
    options.memoryCapBytes = capBytes - step.scratchBytes;
  FailureOr<ExplainedModule> explained = explainModule(planned, costs, options);
  if (failed(explained))
    return failure();
  const ScheduleView &view = explained->view;
  step.stepNs = view.makespanNs;
  step.computeNs = view.getComputeNs();
  step.exposedNs = view.getExposedNs(CollectiveKind::AllGather) +
                   view.getExposedNs(CollectiveKind::ReduceScatter) + view.getExposedAcrossNs() +
                   view.getExposedCopyNs();
  step.boundNs = explained->bound.makespanNs;
  step.jittered = explained->jittered;
  if (!view.memory.empty())
    step.liveBytes = view.memory[view.peakSample].bytes;
  step.kept = static_cast<unsigned>(llvm::count(explained->plan.kept, 1));
  step.gathers = static_cast<unsigned>(explained->plan.gathers.size());
  step.reductions = static_cast<unsigned>(explained->plan.reductions.size());
  step.decisions = collectDecisions(planned);
  planned.walk([&](LaunchOp) {
    step.hasKernels = true;
    return WalkResult::interrupt();
  });
  return step;
}

FailureOr<SweepPoint> PointPlanner::plan(const PointRequest &request) const {
  SweepPoint point;
  point.model = model;
  point.request = request;
  point.itemsPerStep = items * request.mesh.getRanks() * request.microbatches;
  point.item = item;
  point.peakNs = peakNs * static_cast<double>(request.microbatches);
  const FusionChoice kernels = resolve(request.fusion, getTarget(captured));
  point.kernels = nameKernels(kernels);
  OwningOpRef<ModuleOp> module = ModuleOp(captured).clone();
  std::optional<CapRefusal> refusal;
  std::vector<Diagnostic> diagnostics;
  LogicalResult compiled = success();
  {
    ScopedDiagnosticHandler collect(module->getContext(), [&](Diagnostic &diag) {
      if (std::optional<CapRefusal> found = getRefusal(diag))
        refusal = std::move(found);
      diagnostics.push_back(std::move(diag));
      return success();
    });
    compiled = compile(*module, ScheduleChoice::Auto, request);
  }
  if (failed(compiled)) {
    if (refusal) {
      point.refusal = std::move(*refusal);
      return point;
    }
    for (Diagnostic &diag : diagnostics)
      module->getContext()->getDiagEngine().emit(std::move(diag));
    return failure();
  }
  FailureOr<PlannedStep> step = describe(*module, request.capBytes);
  if (failed(step))
    return failure();
  if (!step->hasKernels)
    point.kernels = nameKernels(FusionChoice::Off);
  point.step = std::move(*step);
  return point;
}

std::optional<PlannedStep> PointPlanner::planFsdp2(const PointRequest &request) const {
  OwningOpRef<ModuleOp> module = ModuleOp(captured).clone();
  ScopedDiagnosticHandler quiet(module->getContext(), [](Diagnostic &) { return success(); });
  if (failed(compile(*module, ScheduleChoice::Fsdp2, request)))
    return std::nullopt;
  FailureOr<PlannedStep> step = describe(*module, 0);
  return failed(step) ? std::nullopt : std::optional(std::move(*step));
}
