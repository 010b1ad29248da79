//===- extract-problem.cpp - The scheduling problem of a captured step ----===//
//
// Writes the problem that `--schedule auto --split-blocks false` would search: the captured step,
// sharded and with the given recomputation, with a device's durations, as a file for
// schedule-benchmark.
//
//===----------------------------------------------------------------------===//

#include "ProblemFile.h"

#include "fsdp/Analysis/ScheduleProblem.h"
#include "fsdp/Explain/ModuleFile.h"
#include "fsdp/Transforms/PrepareSearch.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Pipelines.h"

#include <CLI/CLI.hpp>

using namespace mlir;
using namespace fsdp;

namespace {

struct Options {
  std::string input, output;
  std::string mesh, recompute = "cheap", updates = "interleaved";
  cost::CostOptions costs;
  bool offloadChunks = false;
};

} // namespace

static int fail(const Twine &message) {
  llvm::errs() << "extract-problem: error: " << message << '\n';
  return 1;
}

static int run(const Options &options) {
  llvm::Expected<std::unique_ptr<cost::CostModel>> costs = cost::CostModel::create(options.costs);
  if (!costs)
    return fail(llvm::toString(costs.takeError()));
  llvm::Expected<std::unique_ptr<explain::ModuleFile>> file =
      explain::ModuleFile::read(options.input);
  if (!file)
    return fail(llvm::toString(file.takeError()));
  ModuleOp module = (*file)->get();

  PipelineOptions pipeline;
  pipeline.mesh = options.mesh;
  // The flag is checked, so this succeeds.
  pipeline.recompute = *symbolizeRecomputePolicy(options.recompute);
  pipeline.schedule = ScheduleChoice::Auto;
  pipeline.splitBlocks = "false"; // docs/performance.md has figures of whole blocks
  pipeline.upTo = ModulePhase::Sharded;
  PassManager manager(module.getContext());
  buildPipeline(manager, pipeline);
  if (failed(manager.run(module)))
    return 1;
  FailureOr<StepMemory> memory = prepareSearch(module);
  if (failed(memory))
    return 1;
  UpdatePlacement placement =
      options.updates == "at-end" ? UpdatePlacement::AtEnd : UpdatePlacement::Interleaved;
  FailureOr<ScheduleProblem> step =
      getScheduleProblem(module, *memory, **costs, placement, std::nullopt, options.offloadChunks);
  if (failed(step))
    return 1;
  if (std::optional<std::string> wrong = benchmark::writeProblem(step->problem, options.output))
    return fail(*wrong);
  return 0;
}

int main(int argc, char **argv) {
  CLI::App app("Writes the scheduling problem of a captured step on a mesh.", "extract-problem");
  Options options;
  app.add_option("INPUT", options.input, "Captured module, text or bytecode")->required();
  app.add_option("-o", options.output, "File for the problem (JSON)")->required();
  app.add_option("--mesh", options.mesh, "Mesh as for fsdpc: dp=64")->required();
  app.add_option("--recompute", options.recompute,
                 "Policy of recomputation, as --recompute of fsdpc")
      ->check(CLI::IsMember({"none", "cheap", "selected", "full"}))
      ->capture_default_str();
  app.add_option("--updates", options.updates, "Position of the updates of shards")
      ->check(CLI::IsMember({"interleaved", "at-end"}))
      ->capture_default_str();
  app.add_flag("--offload-chunks", options.offloadChunks, "Chunks may wait on the host");
  app.add_option("--device", options.costs.device,
                 "Device that predicts durations: a100, h100, h100-500w, h200, b200, cpu");
  app.add_option("--network", options.costs.network,
                 "Network that predicts collectives: a preset or a JSON file (the device's)");
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
