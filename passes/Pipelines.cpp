//===- Pipelines.cpp - From a captured to a planned step ------------------===//

#include "passes/Pipelines.h"

#include "mlir/Pass/PassRegistry.h"
#include "passes/SearchOptions.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fsdp;

void fsdp::addRecompute(OpPassManager &manager, RecomputeOptions options) {
  options.cheapFirst = true;
  manager.addPass(createRecompute(options));
}

static SearchFlags getSearchFlags(const PipelineOptions &options) {
  return {options.schedule,
          options.memoryCap,
          options.buckets,
          options.maxBucketSize,
          options.seed,
          options.budget,
          options.offloadChunks == OffloadPolicy::Auto,
          getCostOptions(options)};
}

static void addRecomputation(OpPassManager &manager, const PipelineOptions &options,
                             std::shared_ptr<PlanMemo> memo) {
  if (options.schedule != ScheduleChoice::Fsdp2) {
    auto choose = toOptions<ChooseRecomputeOptions>(getSearchFlags(options));
    choose.policy = options.recompute;
    choose.offload = options.offloadOptimizer;
    choose.fusion = options.fusion;
    choose.activations = options.offloadActivations;
    manager.addPass(createChooseRecompute(choose, std::move(memo)));
    return;
  }
  RecomputeOptions recompute;
  recompute.policy =
      options.recompute == RecomputePolicy::Auto ? RecomputePolicy::Cheap : options.recompute;
  addRecompute(manager, recompute);
}

void fsdp::addOffload(OpPassManager &manager, const OffloadChoices &offload) {
  manager.addPass(createOffloadOptimizer({.offload = offload.optimizer}));
  manager.addPass(createOffloadActivations({.activations = offload.activations}));
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
                                         .splitRoot = options.splitRoot,
                                         .splitBlocks = options.splitBlocks,
                                         .splitDefault = isSearched || options.splitsGroups,
                                         .layout = options.layout,
                                         .prefetch = options.prefetch,
                                         .paramDtype = options.paramDtype,
                                         .reduceDtype = options.reduceDtype,
                                         .microbatches = options.microbatches,
                                         .microbatchLoss = options.microbatchLoss,
                                         .microbatchOrder = options.microbatchOrder,
                                         .stages = options.stages,
                                         .gradientSync = options.gradientSync,
                                         .reshardAfterBackward = options.reshardAfterBackward,
                                         .shardPlacement = options.shardPlacement,
                                         .offloadPolicy = options.offloadPolicy,
                                         .transport = options.transport}));
  manager.addPass(createSumGradientsByModule());
  manager.addPass(createMixedPrecision());
  auto memo = std::make_shared<PlanMemo>();
  addRecomputation(manager, options, memo);
  manager.addPass(createAccumulateGradients());
  manager.addPass(createInsertCollectives());
  // For the policy Auto, the search in fsdp-choose-recompute has marked the groups that it
  // offloads.
  auto decide = [&](OffloadPolicy policy) {
    return isSearched && policy == OffloadPolicy::Auto ? OffloadPolicy::None : policy;
  };
  addOffload(manager, {decide(options.offloadOptimizer), decide(options.offloadActivations)});
  verify(createVerifySharded());
  if (options.upTo == ModulePhase::Sharded)
    return;

  if (isSearched) {
    auto search = toOptions<OptimizeScheduleOptions>(getSearchFlags(options));
    search.fusion = options.fusion;
    manager.addPass(createOptimizeSchedule(search, memo));
    manager.addPass(createOffloadGradients());
  } else {
    manager.addPass(createSchedule());
    manager.addPass(createAssignStreams());
    manager.addPass(createOffloadGradients());
    manager.addPass(createFuse(
        {.fusion = options.fusion, .memoryCap = options.memoryCap, .profile = options.profile}));
  }
  verify(createVerifyScheduled());
  if (!options.report.empty()) {
    ReportOptions report{.file = options.report, .memoryCap = options.memoryCap};
    setCostOptions(getCostOptions(options), report);
    manager.addPass(createReport(report));
  }
  if (options.upTo == ModulePhase::Scheduled)
    return;

  manager.addPass(createPlanMemory({.memoryCap = options.memoryCap, .profile = options.profile}));
  verify(createVerifyPlanned());
}

std::optional<std::string> fsdp::explainUnused(StringRef flag, const FlagUses &uses) {
  std::string butIs = ", but the schedule is " + nameChoice(uses.schedule).str();
  if (flag == "seed" || flag == "budget" || flag == "max-bucket-size" || flag == "buckets") {
    if (uses.schedule != ScheduleChoice::Auto)
      return "is for schedule auto" + butIs;
    if (flag == "max-bucket-size" && !uses.hasBuckets)
      return "is for buckets, but there are to be none";
    return std::nullopt;
  }
  if (uses.schedule != ScheduleChoice::Fsdp2 || uses.hasReport)
    return std::nullopt;
  if (flag == "profile")
    return uses.hasCap
               ? std::nullopt
               : std::optional("is for schedule auto or asap, a report, or a memory cap" + butIs);
  return "is for schedule auto or asap, or a report" + butIs;
}

std::optional<std::string> fsdp::explainUnusedTransport(Transport transport,
                                                        ScheduleChoice schedule) {
  if (transport != Transport::Auto || schedule == ScheduleChoice::Auto)
    return std::nullopt;
  return "auto is for schedule auto, but the schedule is " + nameChoice(schedule).str();
}

std::optional<std::string> fsdp::explainUnusedOffload(OffloadPolicy policy, ScheduleChoice schedule,
                                                      bool hasCap) {
  if (policy != OffloadPolicy::Auto)
    return std::nullopt;
  if (schedule == ScheduleChoice::Fsdp2)
    return "auto is for schedule auto or asap, but the schedule is fsdp2";
  if (!hasCap)
    return "auto offloads what a memory-cap asks for, but there is none";
  return std::nullopt;
}

std::optional<std::string> fsdp::explainUnusedChunks(OffloadPolicy policy, ScheduleChoice schedule,
                                                     bool hasCap) {
  if (policy == OffloadPolicy::Auto && schedule != ScheduleChoice::Auto)
    return "auto is for schedule auto, but the schedule is " + nameChoice(schedule).str();
  return explainUnusedOffload(policy, schedule, hasCap);
}

/// Reports an error if an option is given that has no effect.
static LogicalResult checkOptions(const PipelineOptions &options,
                                  function_ref<LogicalResult(const Twine &)> emitError) {
  const PipelineOptions &o = options;
  for (auto [flag, policy] : {std::pair("offload-optimizer ", o.offloadOptimizer.getValue()),
                              {"offload-activations ", o.offloadActivations.getValue()}})
    if (std::optional<std::string> why =
            explainUnusedOffload(policy, o.schedule, o.memoryCap != "0"))
      return emitError(flag + *why);
  if (std::optional<std::string> why =
          explainUnusedChunks(o.offloadChunks, o.schedule, o.memoryCap != "0"))
    return emitError("offload-chunks " + *why);
  if (std::optional<std::string> why = explainUnusedTransport(o.transport, o.schedule))
    return emitError("transport " + *why);
  if (o.fusion.hasValue() && o.upTo == ModulePhase::Sharded)
    return emitError("fusion needs a scheduled module, but up-to is sharded");
  if (!o.report.empty() && o.upTo == ModulePhase::Sharded)
    return emitError("report needs a scheduled module, but up-to is sharded");
  bool isGiven[] = {!o.buckets,           o.maxBucketSize.hasValue(), o.seed.hasValue(),
                    o.budget.hasValue(),  o.device.hasValue(),        o.profile.hasValue(),
                    o.network.hasValue(), o.computeJitter.hasValue(), o.networkJitter.hasValue()};
  FlagUses uses{.schedule = o.schedule,
                .hasReport = !o.report.empty(),
                .hasCap = o.memoryCap != "0",
                .hasBuckets = o.buckets};
  for (auto [flag, given] : llvm::zip_equal(kSearchFlags, isGiven))
    if (given)
      if (std::optional<std::string> why = explainUnused(flag, uses))
        return emitError(flag + " " + *why);
  return success();
}

/// The first option that occurs twice in the text of a pipeline. Without this check the last value
/// would win silently.
static std::optional<StringRef> findRepeated(StringRef text) {
  llvm::StringSet<> seen;
  while (!(text = text.ltrim()).empty()) {
    // A value may be quoted or in braces.
    size_t end = 0;
    int depth = 0;
    for (char quote = 0; end < text.size(); ++end) {
      char c = text[end];
      if (quote) {
        quote = c == quote ? 0 : quote;
        continue;
      }
      if (c == '"' || c == '\'')
        quote = c;
      depth += (c == '{') - (c == '}');
      if (c == ' ' && depth == 0)
        break;
    }
    StringRef name = text.take_front(end).split('=').first;
    if (!seen.insert(name).second)
      return name;
    text = text.drop_front(end);
  }
  return std::nullopt;
}

void fsdp::registerFsdpPipelines() {
  registerPassPipeline(
      "fsdp-pipeline", "From a captured to a planned step, each phase verified",
      [](OpPassManager &manager, StringRef text,
         function_ref<LogicalResult(const Twine &)> emitError) {
        if (std::optional<StringRef> repeated = findRepeated(text))
          return emitError("fsdp-pipeline: " + *repeated + " is given twice");
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
