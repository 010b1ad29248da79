//===- ExplainModule.cpp - Explains a scheduled module --------------------===//

#include "fsdp/Explain/ExplainModule.h"

#include "fsdp/CostModel/OperatorWork.h"
#include "fsdp/CostModel/Temporaries.h"
#include "fsdp/Explain/Quantities.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::explain;

/// "mean 962.0 ms, 95 % within 965.1 ms (200 draws, seed 0; computation 2.0 % on each of 8 ranks,
/// network 5.0 %)".
static std::string describeJitter(const schedule::JitteredMakespan &makespan,
                                  const schedule::Jitter &jitter) {
  return "mean " + formatTime(makespan.meanNs) + ", 95 % within " +
         formatTime(makespan.percentile95Ns) + " (" +
         llvm::formatv("{0} draws, seed {1}; computation {2:f1} % on each of {3} ranks, network "
                       "{4:f1} %)",
                       jitter.samples, jitter.seed, jitter.computeSpread * 100, jitter.ranks,
                       jitter.networkSpread * 100)
             .str();
}

/// Time of the model's products at the device's peak, without recomputation. A module attribute has
/// the number of recomputed floating-point operations per microbatch, but not their dtypes: they
/// count as the average operation of the step.
static double getModelPeakNs(ModuleOp module, const cost::CostModel &costs) {
  double peakNs = 0, flops = 0;
  module.walk([&](aten::CallOp call) {
    peakNs += costs.getPeakNs(call);
    flops += cost::countWork(call).flops;
  });
  auto again = module->getAttrOfType<IntegerAttr>(FsdpDialect::getRecomputedFlopsAttrName());
  if (!again || flops <= 0)
    return peakNs;
  auto accumulation =
      module->getAttrOfType<AccumulationAttr>(FsdpDialect::getAccumulationAttrName());
  int64_t microbatches = accumulation ? accumulation.getMicrobatches() : 1;
  return peakNs * std::max(0.0, 1 - static_cast<double>(again.getInt() * microbatches) / flops);
}

FailureOr<ExplainedModule> fsdp::explain::explainModule(ModuleOp module,
                                                        const cost::CostModel &costs,
                                                        const ExplainOptions &options) {
  FailureOr<StepMemory> memory =
      StepMemory::build(module, {ModulePhase::Scheduled, ModulePhase::Planned});
  if (failed(memory))
    return failure();
  if (!memory->groups.isSharded())
    return module.emitError(memory->groups.isReplicated()
                                ? "parameters are not sharded: there are no gathers to explain"
                                : "the mesh has one rank: there are no collectives to explain");
  FailureOr<ScheduledStep> step = getScheduledStep(module, *memory, costs);
  if (failed(step))
    return failure();
  if (step->operations.empty())
    return module.emitError("the step has no operations");

  ExplainedModule result;
  step->problem.memoryCapBytes = options.memoryCapBytes;
  result.problem = step->problem;
  result.plan = std::move(step->plan);
  int64_t peakBytes = schedule::peakOf(result.problem, result.plan).bytes;
  if (options.memoryCapBytes && peakBytes > *options.memoryCapBytes)
    return module.emitError("the schedule needs ")
           << peakBytes << " bytes, more than the memory cap of " << *options.memoryCapBytes
           << " bytes";
  if (std::optional<std::string> wrong = result.problem.check())
    return module.emitError("the step is no scheduling problem: ") << *wrong;
  if (std::optional<std::string> wrong = schedule::verify(result.problem, result.plan))
    return module.emitError("the schedule is not valid: ") << *wrong;
  schedule::Timeline timeline = schedule::simulate(result.problem, result.plan);
  result.view =
      buildView(result.problem, result.plan, timeline, makeLabels(module, *memory, *step, costs));
  result.view.hostCopies = viewHostCopies(*step, *memory, timeline);
  result.view.criticalPath =
      findCriticalPath(result.problem, result.plan, timeline, step->hostCopyWaits);
  result.view.modelPeakNs = getModelPeakNs(module, costs);
  result.view.decisions = viewDecisions(memory->groups);
  std::vector<std::pair<std::string, std::string>> &facts = result.view.labels.facts;
  if (std::optional<schedule::Jitter> jitter = step->getJitter()) {
    result.jittered = schedule::simulate(result.problem, result.plan, *jitter);
    facts.emplace_back("jitter", describeJitter(*result.jittered, *jitter));
  }
  facts.emplace_back("temporaries", cost::findTemporaries(module, costs).describe());
  result.explanation = explain(result.problem, result.plan, result.view);
  result.bound = findBound(*step, result.view.makespanNs, options.quickRatio);
  return result;
}

std::optional<schedule::Problem>
fsdp::explain::findProblemOfHostCopies(ModuleOp module, const cost::CostModel &costs) {
  FailureOr<StepMemory> memory =
      StepMemory::build(module, {ModulePhase::Scheduled, ModulePhase::Planned});
  if (failed(memory))
    return std::nullopt;
  FailureOr<ScheduledStep> step = getScheduledStep(module, *memory, costs);
  const bool isOnHost = llvm::any_of(memory->groups.getGroups(), [](const GroupInfo &group) {
    return GroupOp(group.op).areParametersOnHost();
  });
  if (failed(step) || (step->hostCopies.empty() && !isOnHost))
    return std::nullopt;
  return std::move(step->problem);
}
