//===- RecomputePredictor.cpp - Memory and time of a candidate ------------===//

#include "passes/RecomputePredictor.h"

#include "fsdp/Schedule/LowerBound.h"
#include "mlir/Pass/PassManager.h"
#include "passes/LeastPeak.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace fsdp;

StepChoices RecomputePredictor::getChoices(const RecomputeCandidate &candidate) const {
  RecomputeOptions recompute;
  recompute.policy = candidate.getRootPolicy(numBlocks);
  // With Auto, only blocks that the candidate's steps mark are offloaded.
  const bool areAll = activations == OffloadPolicy::All;
  return {.recompute = recompute,
          .offload = {candidate.offload, areAll ? OffloadPolicy::All : OffloadPolicy::None},
          .fusion = kernels};
}

OwningOpRef<ModuleOp> RecomputePredictor::apply(const RecomputeCandidate &candidate) const {
  ModuleOp module = captured;
  OwningOpRef<ModuleOp> changed = module.clone();
  applySteps(*changed, candidate.steps);
  return changed;
}

std::optional<int64_t> RecomputePredictor::findPeak(const RecomputeCandidate &candidate) const {
  return findLeastPeak(*apply(candidate), search.getCosts(), getChoices(candidate));
}

OwningOpRef<ModuleOp> RecomputePredictor::shard(const RecomputeCandidate &candidate) const {
  OwningOpRef<ModuleOp> changed = apply(candidate);
  MLIRContext *context = changed->getContext();
  ScopedDiagnosticHandler quiet(context, [](Diagnostic &) { return success(); });
  PassManager manager(context);
  addSharding(manager, *changed, getChoices(candidate));
  if (failed(manager.run(*changed)))
    return nullptr;
  return changed;
}

std::optional<FoundSchedule> RecomputePredictor::schedule(ModuleOp sharded) const {
  ScopedDiagnosticHandler quiet(sharded.getContext(), [](Diagnostic &) { return success(); });
  FailureOr<std::optional<FoundSchedule>> found = search.run(sharded);
  return succeeded(found) ? std::move(*found) : std::nullopt;
}

std::optional<RecomputePrediction>
RecomputePredictor::predict(const RecomputeCandidate &candidate) const {
  OwningOpRef<ModuleOp> module = shard(candidate);
  std::optional<FoundSchedule> found = module ? schedule(*module) : std::nullopt;
  if (!found)
    return std::nullopt;
  double computeNs = -found->step.exposedCopyNs;
  for (const schedule::Operation &operation : found->step.problem.operations)
    computeNs += operation.durationNs;
  schedule::Problem problem = std::move(found->step.problem);
  problem.memoryCapBytes = search.getArenaCapBytes(*module); // the last resort has a smaller one
  return RecomputePrediction{candidate, found->makespanNs, computeNs, found->boundNs,
                             std::move(problem)};
}

double RecomputePrediction::estimateNs(ArrayRef<RecomputeStep> more) const {
  schedule::Problem changed = problem;
  llvm::StringMap<uint32_t> backwardOf; // the first operation of the last use, by group
  for (const schedule::Use &use : changed.uses)
    backwardOf[changed.groups[use.group].name] = use.first;
  for (const RecomputeStep &step : more) {
    auto backward = backwardOf.find(step.group.getValue());
    if (backward != backwardOf.end())
      changed.operations[backward->second].durationNs += step.addedNs;
    if (step.nsPerByte > 0)
      *changed.memoryCapBytes += static_cast<int64_t>(step.addedNs / step.nsPerByte);
  }
  // Latencies hardly matter for how much is worth it.
  return schedule::fluidBound(changed, {.ignoreLatency = true}).makespanNs;
}
