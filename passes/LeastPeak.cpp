//===- LeastPeak.cpp - The least memory of a captured step ----------------===//

#include "passes/LeastPeak.h"

#include "fsdp/Analysis/ScheduleProblem.h"
#include "fsdp/Transforms/PrepareSearch.h"
#include "fsdp/Transforms/Unshard.h"
#include "passes/Pipelines.h"

using namespace mlir;
using namespace fsdp;

/// True for a step that has several microbatches already, as the captured step stored with a
/// sharded one has.
static bool isAccumulated(ModuleOp captured) {
  bool isFound = false;
  captured.walk([&](aten::CallOp call) { isFound |= call.getMicrobatch() > 0; });
  return isFound;
}

void fsdp::addSharding(OpPassManager &manager, ModuleOp captured, const StepChoices &choices) {
  if (choices.recompute)
    addRecompute(manager, *choices.recompute);
  if (!isAccumulated(captured))
    manager.addPass(createAccumulateGradients());
  manager.addPass(createInsertCollectives());
  addOffload(manager, choices.offload);
  manager.addPass(createFuse({.fusion = choices.fusion}));
}

std::optional<int64_t> fsdp::findLeastPeak(ModuleOp captured, const cost::CostModel &costs,
                                           const StepChoices &choices) {
  ScopedDiagnosticHandler quiet(captured.getContext(), [](Diagnostic &) { return success(); });
  PassManager manager(captured.getContext());
  addSharding(manager, captured, choices);
  if (failed(manager.run(captured)))
    return std::nullopt;
  FailureOr<StepMemory> memory = prepareSearch(captured);
  if (failed(memory))
    return std::nullopt;
  FailureOr<ScheduleProblem> problem =
      getScheduleProblem(captured, *memory, costs, UpdatePlacement::Interleaved);
  if (failed(problem))
    return std::nullopt;
  return problem->problem.minimumPeak().bytes;
}

std::optional<int64_t> fsdp::findLeastPeak(ModuleOp sharded, const cost::CostModel &costs,
                                           const StepChange &change, FusionChoice fusion) {
  ScopedDiagnosticHandler quiet(sharded.getContext(), [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> changed = sharded.clone();
  if (failed(unshard(*changed)))
    return std::nullopt;
  for (auto mesh : changed->getOps<MeshOp>()) {
    SmallVector<int64_t> sizes(mesh.getSizes());
    sizes.back() *= change.shardFactor;
    mesh.setSizes(sizes);
  }
  StepChoices choices{.offload = change.offload, .fusion = change.fusion.value_or(fusion)};
  if (change.recompute) {
    choices.recompute.emplace().policy = *change.recompute;
    // A policy that is left to a search may be any policy, including the one to try.
    for (auto group : changed->getOps<GroupOp>())
      if (group.getRecompute() == RecomputePolicy::Auto)
        group.removeRecomputeAttr();
  }
  return findLeastPeak(*changed, costs, choices);
}
