//===- Pipelines.cpp - From a captured to a planned step ------------------===//

#include "passes/Pipelines.h"

#include "mlir/Pass/PassRegistry.h"
#include "passes/ScheduleSearch.h"

using namespace mlir;
using namespace fsdp;

void fsdp::addRecompute(OpPassManager &manager, const RecomputeOptions &options) {
  if (options.policy != RecomputePolicy::Cheap)
    manager.addPass(createRecompute());
  manager.addPass(createRecompute(options));
}

static SearchFlags getSearchFlags(const PipelineOptions &options) {
  return {options.schedule, options.memoryCap, options.buckets,
          options.seed,     options.budget,    {options.device, options.profile, options.network}};
}

static void addRecomputation(OpPassManager &manager, const PipelineOptions &options) {
  bool isAuto = options.recompute == RecomputePolicy::Auto;
  if (isAuto && options.schedule != ScheduleChoice::Fsdp2) {
    manager.addPass(createChooseRecompute(getSearchFlags(options).to<ChooseRecomputeOptions>()));
  } else if (options.recompute != RecomputePolicy::None) {
    RecomputeOptions recompute;
    recompute.policy = isAuto ? RecomputePolicy::Cheap : options.recompute;
    addRecompute(manager, recompute);
  }
}

void fsdp::buildPipeline(OpPassManager &manager, const PipelineOptions &options) {
  auto verify = [&](std::unique_ptr<Pass> verifier) {
    if (options.verify)
      manager.addPass(std::move(verifier));
  };
  bool isSearched = options.schedule != ScheduleChoice::Fsdp2;
  verify(createVerifyCaptured());
  manager.addPass(createGroupParameters({.config = options.config,
                                         .mesh = options.mesh,
                                         .reshardAfterForward = options.reshardAfterForward,
                                         .reshardDefault = isSearched ? "auto" : "none",
                                         .layout = options.layout,
                                         .prefetch = options.prefetch}));
  addRecomputation(manager, options);
  manager.addPass(createInsertCollectives());
  verify(createVerifySharded());
  if (options.upTo == ModulePhase::Sharded)
    return;

  if (isSearched) {
    manager.addPass(createOptimizeSchedule(getSearchFlags(options).to<OptimizeScheduleOptions>()));
  } else {
    manager.addPass(createSchedule());
    manager.addPass(createAssignStreams());
  }
  verify(createVerifyScheduled());
  if (!options.report.empty())
    manager.addPass(createReport({.file = options.report,
                                  .memoryCap = options.memoryCap,
                                  .device = options.device,
                                  .profile = options.profile,
                                  .network = options.network}));
  if (options.upTo == ModulePhase::Scheduled)
    return;

  manager.addPass(createPlanMemory({.memoryCap = options.memoryCap}));
  verify(createVerifyPlanned());
}

std::optional<std::string> fsdp::explainUnused(StringRef flag, ScheduleChoice schedule,
                                               bool isReported) {
  std::string butIs = ", but the schedule is " + nameChoice(schedule).str();
  if (flag == "seed" || flag == "budget") {
    if (schedule != ScheduleChoice::Auto)
      return "is for schedule auto" + butIs;
  } else if (schedule == ScheduleChoice::Fsdp2 && !isReported) {
    return "is for schedule auto or asap, or a report" + butIs;
  }
  return std::nullopt;
}

/// Options that are given and have no effect are errors.
static LogicalResult checkOptions(const PipelineOptions &options,
                                  function_ref<LogicalResult(const Twine &)> emitError) {
  const PipelineOptions &o = options;
  std::pair<StringRef, bool> given[] = {{"seed", o.seed.hasValue()},
                                        {"budget", o.budget.hasValue()},
                                        {"device", o.device.hasValue()},
                                        {"profile", o.profile.hasValue()},
                                        {"network", o.network.hasValue()}};
  for (auto [flag, isGiven] : given)
    if (isGiven)
      if (std::optional<std::string> why =
              explainUnused(flag, options.schedule, !options.report.empty()))
        return emitError(flag + " " + *why);
  return success();
}

void fsdp::registerFsdpPipelines() {
  registerPassPipeline(
      "fsdp-pipeline", "From a captured to a planned step, each phase verified",
      [](OpPassManager &manager, StringRef text,
         function_ref<LogicalResult(const Twine &)> emitError) {
        PipelineOptions options;
        if (failed(options.parseFromString(text)) || failed(checkOptions(options, emitError)))
          return failure();
        buildPipeline(manager, options);
        return success();
      },
      [](function_ref<void(const mlir::detail::PassOptions &)> handle) {
        handle(PipelineOptions());
      });
}
