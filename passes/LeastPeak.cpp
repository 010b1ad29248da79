//===- LeastPeak.cpp - The least memory of a captured step ----------------===//

#include "passes/LeastPeak.h"

#include "fsdp/Analysis/ScheduleProblem.h"
#include "fsdp/Transforms/PrepareSearch.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Pipelines.h"

using namespace mlir;
using namespace fsdp;

/// True of a step that has its microbatches, as the captured step behind a sharded one does.
static bool isAccumulated(ModuleOp captured) {
  bool isFound = false;
  captured.walk([&](aten::CallOp call) { isFound |= call.getMicrobatch() > 0; });
  return isFound;
}

std::optional<int64_t> fsdp::findLeastPeak(ModuleOp captured, const cost::CostModel &costs,
                                           const RecomputeOptions *recompute,
                                           OffloadPolicy offload) {
  ScopedDiagnosticHandler quiet(captured.getContext(), [](Diagnostic &) { return success(); });
  PassManager manager(captured.getContext());
  if (recompute)
    addRecompute(manager, *recompute);
  if (!isAccumulated(captured))
    manager.addPass(createAccumulateGradients());
  manager.addPass(createInsertCollectives());
  manager.addPass(createOffloadOptimizer({.offload = offload}));
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
