//===- ExplainModule.cpp - From a scheduled module to its reasons ---------===//

#include "fsdp/Explain/ExplainModule.h"

#include "fsdp/Explain/Quantities.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::explain;

FailureOr<ExplainedModule> fsdp::explain::explainModule(ModuleOp module,
                                                        const cost::CostModel &costs,
                                                        const ExplainOptions &options) {
  FailureOr<StepMemory> memory =
      StepMemory::build(module, {ModulePhase::Scheduled, ModulePhase::Planned});
  if (failed(memory))
    return failure();
  if (memory->groups.getRanks() == 1)
    return module.emitError("the mesh has one rank: there are no collectives to explain");
  FailureOr<ScheduledStep> step = getScheduledStep(module, *memory, costs);
  if (failed(step))
    return failure();
  if (step->operations.empty())
    return module.emitError("the step has no operations");

  ExplainedModule result;
  result.problem = std::move(step->problem);
  result.plan = std::move(step->plan);
  int64_t peakBytes = schedule::peakOf(result.problem, result.plan).bytes;
  if (options.memoryCapBytes && peakBytes > *options.memoryCapBytes)
    return module.emitError("the schedule needs ")
           << peakBytes << " bytes, more than the memory cap of " << *options.memoryCapBytes
           << " bytes";
  result.problem.memoryCapBytes = options.memoryCapBytes;
  if (std::optional<std::string> wrong = result.problem.check())
    return module.emitError("the step is no scheduling problem: ") << *wrong;
  if (std::optional<std::string> wrong = schedule::verify(result.problem, result.plan))
    return module.emitError("the schedule is not valid: ") << *wrong;
  result.view =
      buildView(result.problem, result.plan, schedule::simulate(result.problem, result.plan),
                makeLabels(module, *memory, *step, costs));
  result.explanation = explain(result.problem, result.plan, result.view);
  result.bound = schedule::quickBound(result.problem);
  if (result.view.makespanNs > options.quickRatio * result.bound.makespanNs) {
    schedule::LowerBound fluid = schedule::fluidBound(result.problem, {});
    if (fluid.makespanNs > result.bound.makespanNs)
      result.bound = fluid;
  }
  return result;
}
