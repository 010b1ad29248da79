//===- fsdpc.cpp - From a PyTorch model to a training binary --------------===//
//
// Captures, shards, schedules, plans and compiles in one process, in stages that are named in
// progress lines and errors.
//
//===----------------------------------------------------------------------===//

#include "../CostFlags.h"
#include "../FatalErrors.h"
#include "../FusionFlag.h"
#include "../SizeFlag.h"
#include "../TransportFlag.h"
#include "../Version.h"
#include "RunPipelines.h"
#include "fsdp/Analysis/Program.h"
#include "fsdp/CommandLine/UnknownFlag.h"
#include "fsdp/Config/ShardingConfig.h"
#include "fsdp/Explain/DecisionLog.h"
#include "fsdp/Export/BatchInputs.h"
#include "fsdp/Export/EmitObject.h"
#include "fsdp/Export/ExpectedDurations.h"
#include "fsdp/Export/LowerToPlan.h"
#include "fsdp/Files/SameFile.h"
#include "fsdp/Frontend/Capture.h"
#include "fsdp/Frontend/CommandLine.h"
#include "fsdp/IR/Fsdp.h"
#include "fsdp/IR/OutputFile.h"
#include "passes/Pipelines.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <CLI/CLI.hpp>

using namespace mlir;

/// An error text if two meshes have equally many ranks: a run chooses its mesh by the number of
/// ranks.
static std::optional<std::string> findEqualRanks(ArrayRef<std::vector<fsdp::PlanTables>> programs,
                                                 const fsdp::Options &options) {
  for (size_t i = 0; i < programs.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (unsigned ranks = programs[i].front().header.world_size;
          ranks == programs[j].front().header.world_size)
        return "--mesh " + options.meshes[j] + " and --mesh " + options.meshes[i] + " both have " +
               std::to_string(ranks) + " ranks; a run takes the mesh that has its number of ranks";
  return std::nullopt;
}

/// Compiles and links `modules`: one planned module for each mesh.
static int compile(ArrayRef<OwningOpRef<ModuleOp>> modules, const fsdp::Options &options,
                   fsdp::Stage &stage) {
  stage.begin("compile");
  std::vector<std::vector<fsdp::PlanTables>> programs;
  for (const OwningOpRef<ModuleOp> &module : modules) {
    FailureOr<std::vector<fsdp::PlanTables>> tables = fsdp::lowerProgram(*module);
    if (failed(tables))
      return stage.fail("the plan cannot be lowered (see above)");
    programs.push_back(std::move(*tables));
  }
  if (std::optional<std::string> problem = findEqualRanks(programs, options))
    return stage.fail(*problem);
  const fsdp::cost::CostOptions &given = options.costs;
  if (!given.device.empty() || !given.profile.empty() || !given.network.empty()) {
    llvm::Expected<std::unique_ptr<fsdp::cost::CostModel>> costs =
        fsdp::cost::CostModel::create(given);
    if (!costs)
      return stage.fail(costs.takeError());
    for (std::vector<fsdp::PlanTables> &tables : programs)
      for (fsdp::PlanTables &table : tables)
        fsdp::setExpectedDurations(table, **costs);
  }
  llvm::Expected<llvm::SmallVector<char, 0>> object = fsdp::emitObject(programs, {});
  if (!object)
    return stage.fail(object.takeError());
  if (!options.saveTemps.empty())
    if (llvm::Error error = fsdp::writeObject(*object, fsdp::inTemps(options, "step.o")))
      return stage.fail(std::move(error));
  size_t entries = 0;
  for (const std::vector<fsdp::PlanTables> &tables : programs)
    for (const fsdp::PlanTables &table : tables)
      entries += table.entries.size();
  stage.end(llvm::Twine(entries) + " entries, " + llvm::Twine(object->size()) + " bytes of object");
  stage.begin("link");
  if (llvm::Error error = fsdp::linkObject(*object, options.output, options.link))
    return stage.fail(std::move(error));
  stage.end("'" + options.output + "'");
  return 0;
}

/// Moves the weights file into place. It was written to a temporary file while the compilation
/// could still fail.
static int finishWeights(fsdp::OutputFile &file, const fsdp::Options &options, fsdp::Stage &stage) {
  stage.begin("weights");
  bool isRegular = !file.isDirect();
  if (std::optional<std::string> problem = file.commit())
    return stage.fail("cannot write '" + options.weights + "': " + *problem);
  std::string kept = fsdp::inTemps(options, "weights.safetensors");
  if (!options.saveTemps.empty() && isRegular && !fsdp::nameOneFile(kept, options.weights)) {
    llvm::sys::fs::remove(kept);
    if (llvm::sys::fs::create_hard_link(options.weights, kept))
      if (std::error_code code = llvm::sys::fs::copy_file(options.weights, kept))
        return stage.fail("cannot write '" + kept + "': " + code.message());
  }
  stage.end("'" + options.weights + "': the initial parameters and buffers");
  return 0;
}

static int writeDecisions(ModuleOp module, const fsdp::Options &options, fsdp::Stage &stage) {
  FailureOr<std::string> log = fsdp::explain::makeDecisionLog(module);
  if (failed(log))
    return 1;
  llvm::Error error =
      fsdp::printFile(options.decisionLog, [&](llvm::raw_ostream &os) { os << *log; });
  return error ? stage.fail(std::move(error)) : 0;
}

/// An error text if an output would overwrite an input or another output. The copy of the weights
/// under --save-temps may be a link to the weights, or the same file.
static std::optional<std::string> findFileClash(const fsdp::Options &options,
                                                ArrayRef<fsdp::ProgramStep> steps) {
  std::vector<fsdp::NamedPath> outputs = {{"-o", options.output},
                                          {"--weights", options.weights},
                                          {"--fsdp-report", options.report},
                                          {"--log-decisions", options.decisionLog}};
  if (!options.saveTemps.empty()) {
    outputs.push_back({"--save-temps", fsdp::inTemps(options, "step.o")});
    for (const fsdp::ProgramStep &step : steps)
      outputs.push_back({"--save-temps", fsdp::inTemps(options, step.prefix + "captured.mlir")});
    for (size_t mesh = 0; mesh < options.meshes.size(); ++mesh) {
      outputs.push_back(
          {"--save-temps", fsdp::inTemps(options, fsdp::getPrefix(mesh) + "planned.mlir")});
      for (const fsdp::ProgramStep &step : steps)
        for (const char *file : {"sharded.mlir", "scheduled.mlir"})
          outputs.push_back(
              {"--save-temps", fsdp::inTemps(options, fsdp::getPrefix(mesh) + step.prefix + file)});
    }
    if (std::string kept = fsdp::inTemps(options, "weights.safetensors");
        !fsdp::nameOneFile(kept, options.weights))
      outputs.push_back({"--save-temps", kept});
  }
  std::vector<fsdp::NamedPath> inputs = {{"--config", options.config},
                                         {"--profile", options.costs.profile},
                                         {"--network", options.costs.network}};
  llvm::append_range(inputs, options.capture.getFiles());
  llvm::append_range(inputs, options.program.getFiles());
  return fsdp::findClash(inputs, outputs);
}

/// The config file's loss_scale and param_dtype apply to the capture, too, the latter unless the
/// flag says otherwise. A .pt2 file has its own dtypes, which the pipeline checks.
static llvm::Error takeConfig(fsdp::Options &options) {
  if (options.config.empty())
    return llvm::Error::success();
  llvm::Expected<fsdp::ShardingConfig> config = fsdp::readShardingConfig(options.config);
  if (!config)
    return config.takeError();
  if (config->optimizer && config->optimizer->lossScaling)
    options.capture.setLossScaling(config->optimizer->lossScaling);
  if (llvm::StringRef(options.capture.getModel()).ends_with(".pt2"))
    return llvm::Error::success();
  auto ofGroup = [](const fsdp::GroupOptions &group) {
    return group.mixedPrecision && group.mixedPrecision->paramDtype;
  };
  if (ofGroup(config->root) || (config->groups && llvm::any_of(*config->groups, [&](auto &rule) {
                                  return ofGroup(rule.options);
                                })))
    return llvm::createStringError(
        options.config + ": a group has a param_dtype of its own, but a TorchScript file is "
                         "captured with one for all: save it with fsdpc.export(..., "
                         "mixed_precision=...)");
  if (config->mixedPrecision.paramDtype && options.capture.getParamDtype().empty())
    options.capture.setParamDtype(fsdp::getName(*config->mixedPrecision.paramDtype).str());
  return llvm::Error::success();
}

/// Captures a step, prints a progress line, and saves the module under --save-temps.
static llvm::Expected<fsdp::frontend::CapturedStep>
capture(const fsdp::ProgramStep &asked, const fsdp::Options &options, fsdp::OutputFile *weights,
        MLIRContext &context, fsdp::Stage &stage) {
  stage.begin("capture");
  llvm::Expected<fsdp::frontend::CapturedStep> step =
      fsdp::frontend::captureStep(asked.capture, weights, context);
  if (!step)
    return step;
  for (const std::string &note : step->notes)
    stage.note(note);
  unsigned calls = 0;
  step->module->walk([&](fsdp::aten::CallOp) { ++calls; });
  stage.end(llvm::Twine(calls) + " aten calls" +
            (asked.capture.isEvaluation ? " of an evaluation" : "") +
            (step->hasWeights ? "" : "; the model was saved on meta and has no weights"));
  if (!options.saveTemps.empty()) {
    std::string path = fsdp::inTemps(options, asked.prefix + "captured.mlir");
    if (llvm::Error error = fsdp::frontend::writeModule(*step->module, path))
      return error;
  }
  return step;
}

static int run(fsdp::Options &options) {
  fsdp::Stage stage(options.quiet);
  stage.begin("capture");
  if (llvm::Error error = takeConfig(options))
    return stage.fail(std::move(error));
  llvm::Expected<fsdp::frontend::CaptureOptions> asked = options.capture.getOptions();
  if (!asked)
    return stage.fail(asked.takeError());
  llvm::Expected<std::vector<fsdp::ProgramStep>> steps = options.program.getSteps(*asked);
  if (!steps)
    return stage.fail(steps.takeError());
  const bool hasWeightsFlag = !options.weights.empty();
  if (!hasWeightsFlag)
    options.weights = options.output + ".safetensors";
  if (std::optional<std::string> clash = findFileClash(options, *steps))
    return stage.fail(*clash);
  if (!options.saveTemps.empty())
    if (std::error_code code = llvm::sys::fs::create_directories(options.saveTemps))
      return stage.fail("cannot make the folder '" + options.saveTemps + "': " + code.message());
  std::string problem;
  std::optional<fsdp::OutputFile> weights = fsdp::OutputFile::open(options.weights, problem);
  if (!weights)
    return stage.fail("cannot write '" + options.weights + "': " + problem);

  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  context.getDiagEngine().registerHandler(fsdp::printDiagnostic);
  std::vector<OwningOpRef<ModuleOp>> modules;
  bool hasWeights = false;
  for (const fsdp::ProgramStep &step : *steps) {
    const bool isFirst = modules.empty();
    llvm::Expected<fsdp::frontend::CapturedStep> captured =
        capture(step, options, isFirst ? &*weights : nullptr, context, stage);
    if (!captured)
      return stage.fail(captured.takeError());
    if (failed(fsdp::checkBatchInputs(*captured->module)))
      return stage.fail((step.source.empty() ? "the step" : step.source) +
                        " has inputs that no data can be (see above)");
    if (isFirst)
      hasWeights = captured->hasWeights;
    else if (failed(fsdp::takeStateOf(*modules.front(), *captured->module)))
      return stage.fail(step.source + " is another model (see above)");
    modules.push_back(std::move(captured->module));
  }
  std::vector<OwningOpRef<ModuleOp>> programs;
  for (size_t mesh = 0; mesh < options.meshes.size(); ++mesh) {
    std::vector<OwningOpRef<ModuleOp>> own;
    for (OwningOpRef<ModuleOp> &module : modules)
      own.push_back(mesh + 1 < options.meshes.size() ? OwningOpRef<ModuleOp>(module->clone())
                                                     : std::move(module));
    programs.push_back(fsdp::planFor(mesh, std::move(own), *steps, options, stage));
    if (!programs.back())
      return 1;
  }
  if (!options.decisionLog.empty())
    if (int code = writeDecisions(programs.front().get(), options, stage))
      return code;
  if (int code = compile(programs, options, stage))
    return code;
  if (hasWeights)
    return finishWeights(*weights, options, stage);
  if (hasWeightsFlag)
    stage.note("the model was saved on meta and has no values; '" + options.weights +
               "' is not written");
  if (std::string beside = options.output + ".safetensors"; llvm::sys::fs::exists(beside))
    stage.note("'" + beside + "' was there before and stays: without --init the binary reads it");
  return 0;
}

/// Refuses flags that have no effect with the chosen schedule.
static void checkSearchFlags(const CLI::App &app, const fsdp::Options &options) {
  const fsdp::OffloadChoices offload = fsdp::getOffload(options);
  for (auto [flag, policy] : {std::pair("--offload-optimizer", offload.optimizer),
                              {"--offload-activations", offload.activations}})
    if (std::optional<std::string> why = fsdp::explainUnusedOffload(
            policy, fsdp::getSchedule(options), options.memoryCap != "0"))
      throw CLI::ValidationError(flag, *why);
  if (std::optional<std::string> why = fsdp::explainUnusedChunks(
          fsdp::getChunkOffload(options), fsdp::getSchedule(options), options.memoryCap != "0"))
    throw CLI::ValidationError("--offload-chunks", *why);
  if (std::optional<std::string> why =
          fsdp::explainUnusedTransport(options.transport, fsdp::getSchedule(options)))
    throw CLI::ValidationError("--transport", *why);
  fsdp::FlagUses uses{.schedule = fsdp::getSchedule(options),
                      .hasReport = !options.report.empty(),
                      .hasCap = options.memoryCap != "0",
                      .hasBuckets = options.buckets};
  for (llvm::StringRef name : fsdp::kSearchFlags) {
    std::string flag = name == "buckets" ? "--no-buckets" : ("--" + name).str();
    if (app.count(flag) == 0)
      continue;
    if (std::optional<std::string> why = fsdp::explainUnused(name, uses))
      throw CLI::ValidationError(flag, *why);
  }
}

int main(int argc, char **argv) {
  fsdp::endOnFatalErrors("fsdpc");
  CLI::App app(
      "Compiles a PyTorch model to a native training binary: captures one training step, shards "
      "and schedules it as FSDP2 does, plans its memory, links it. Defaults are in parentheses.",
      "fsdpc");
  fsdp::reportUnknownFlags(app);
  app.set_version_flag("--version", fsdp::getVersion("fsdpc"));
  fsdp::Options options;
  options.link.runtimeDir = fsdp::getDefaultRuntimeDir(argv[0]);
  options.capture.addTo(app);
  options.program.addTo(app);
  app.add_option("--config", options.config,
                 "YAML file with mesh, groups and layout, in FSDP2's terms")
      ->check(CLI::ExistingFile);
  app.add_option("--mesh", options.meshes,
                 "device mesh, as dp=4 or replicate=2,shard=4 (dp=1). Give one for each mesh that "
                 "the binary supports: a run takes the one with its number of ranks")
      ->allow_extra_args(false)
      ->default_str("");
  app.add_option("--reshard-after-forward", options.reshardAfterForward,
                 "true; false; none: true for all groups but the root, which stays gathered; auto: "
                 "--schedule decides; or a number of ranks that together keep one copy of the "
                 "parameters (none; auto with --schedule auto or asap)")
      ->check(CLI::IsMember({"true", "false", "none", "auto"}) | CLI::Number);
  app.add_option("--layout", options.layout, "flat, or per-param, which is FSDP2's (flat)")
      ->check(CLI::IsMember({"flat", "per-param"}));
  app.add_option("--shard-placement", options.shardPlacement,
                 "dimension on which the per-param layout shards parameters: a number, or largest: "
                 "the largest dimension that the number of ranks divides (0)")
      ->check(CLI::IsMember({"largest"}) | CLI::Number);
  app.add_option("--prefetch", options.prefetch,
                 "fsdp2: FSDP2's implicit backward prefetch; or none (fsdp2)")
      ->check(CLI::IsMember({"fsdp2", "none"}));
  app.add_option("--reduce-dtype", options.reduceDtype,
                 "dtype in which gradients are reduced: float32, bfloat16 or float16 "
                 "(--param-dtype, else the parameters' dtype)")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  app.add_option("--microbatches", options.microbatches,
                 "microbatches of a step: each runs forward and backward on its own batch, and "
                 "their gradients are added up (1)")
      ->check(CLI::PositiveNumber);
  app.add_option("--microbatch-loss", options.microbatchLoss,
                 "mean: the loss of each microbatch is divided by the number of microbatches; sum: "
                 "it is not (mean)")
      ->check(CLI::IsMember({"mean", "sum"}));
  app.add_option(
         "--split-root", options.splitRoot,
         "true: the root's parameters before, between and after the other groups form groups of "
         "their own; false: one root group, as in FSDP2 (true with --schedule auto or asap)")
      ->check(CLI::IsMember({"true", "false"}));
  app.add_option(
      "--split-blocks", options.splitBlocks,
      "a number: groups of one module with at least twice as many parameters become parts of at "
      "least so many; true: of 450,000,000; false: none is split (true with --schedule auto or "
      "asap)");
  app.add_option("--microbatch-order", options.microbatchOrder,
                 "sequential: one microbatch after another; or 1f1b: the forwards and backwards of "
                 "--stages are interleaved (sequential)")
      ->check(CLI::IsMember({"sequential", "1f1b"}));
  app.add_option("--stages", options.stages,
                 "with --microbatch-order 1f1b: the first module of each stage, as names or "
                 "patterns separated by commas: 'embed,layers.4'");
  app.add_option("--gradient-sync", options.gradientSync,
                 "microbatches after which gradients are reduced: each; last; or reduce_scatter: "
                 "over the shards after each one, over the replicas after the last one (each)")
      ->check(CLI::IsMember({"each", "reduce_scatter", "last"}));
  app.add_option("--reshard-after-backward", options.reshardAfterBackward,
                 "false: parameters stay gathered between microbatches (true)")
      ->check(CLI::IsMember({"true", "false"}));
  app.add_option("--recompute", options.recompute,
                 "what the backward computes again instead of keeping it. cheap: results that cost "
                 "about as much to compute as to read; selected: also all of each block but matrix "
                 "products and attention; full: all of each block but its inputs; none: nothing; "
                 "auto: cheap, or with --schedule auto or asap the fastest choice that fits the "
                 "memory cap, or the device. Results are bitwise the same")
      ->check(CLI::IsMember({"auto", "cheap", "selected", "full", "none"}))
      ->capture_default_str();
  app.add_option(
         "--offload-policy", options.offloadPolicy,
         "cpu: parameters and optimizer state are in host memory between their uses, as with "
         "FSDP2's CPUOffloadPolicy; none: on the device (none). Results are bitwise the same")
      ->check(CLI::IsMember({"none", "cpu"}));
  app.add_option("--offload-optimizer", options.offloadOptimizer,
                 "groups whose optimizer state is in host memory between updates: none: only those "
                 "for which the YAML file asks; all; auto: all, if --schedule auto or asap finds "
                 "no other schedule that fits --memory-cap. Results are bitwise the same")
      ->check(CLI::IsMember({"none", "auto", "all"}))
      ->capture_default_str();
  app.add_option("--offload-activations", options.offloadActivations,
                 "blocks whose activations wait for the backward in host memory: none: only those "
                 "for which the YAML file asks; all; auto: those for which --schedule auto or asap "
                 "finds this faster than recomputation under --memory-cap. Results are bitwise the "
                 "same, except with --fusion fast")
      ->check(CLI::IsMember({"none", "auto", "all"}))
      ->capture_default_str();
  app.add_option("--offload-chunks", options.offloadChunks,
                 "chunks, which the ranks of a host keep of a group between forward and backward, "
                 "in host memory: none; auto: those for which --schedule auto decides this under "
                 "--memory-cap. Results are bitwise the same")
      ->check(CLI::IsMember({"none", "auto"}))
      ->capture_default_str();
  fsdp::addFusionFlag(
      app, options.fusion,
      "elementwise operators that become generated kernels: off: none; exact: those whose kernels "
      "give the bits of torch's operators; fast: more operators, in kernels that compute in fp32 "
      "and round once; auto: fast with --target cuda, exact for CPUs");
  app.add_option("--schedule", options.schedule,
                 "fsdp2: eager FSDP2's order; auto: a search for the least predicted step time "
                 "that fits the memory cap; asap: each collective starts as soon as memory allows. "
                 "Results are bitwise the same")
      ->check(CLI::IsMember({"fsdp2", "asap", "auto"}))
      ->capture_default_str();
  fsdp::addSizeFlag(app, "--memory-cap", options.memoryCap,
                    "bytes that a step may need on one rank, as 80000000 or 70GiB; a step that "
                    "needs more is refused");
  fsdp::addTransportFlag(app, options.transport);
  fsdp::addCostFlags(app, options.costs);
  app.add_flag("!--no-buckets", options.buckets, "never issue several collectives in one launch");
  fsdp::addSizeFlag(
      app, "--max-bucket-size", options.maxBucketSize,
      "upper limit on the bytes of one launch of several collectives, as 1GiB (no limit)");
  app.add_option("--seed", options.seed, "seed of the search")->capture_default_str();
  app.add_option("--budget", options.budget,
                 "number of simulations of a search; if its plan takes over 1 % longer than the "
                 "bound, a second search of three times as many follows")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--save-temps", options.saveTemps,
                 "folder that keeps captured.mlir, sharded.mlir, scheduled.mlir, planned.mlir, "
                 "step.o and weights.safetensors");
  app.add_option("--fsdp-report", options.report,
                 "write events and collectives of MODEL's step here (JSON)");
  app.add_option("--log-decisions", options.decisionLog,
                 "write the decisions on each group of the first mesh here, with their reasons, "
                 "and the order of events; - is standard output");
  app.add_option("--weights", options.weights,
                 "write the model's initial weights here (OUT.safetensors)");
  app.add_option("--linker", options.link.linker,
                 "C++ compiler driver that links (the one that built this tool)");
  app.add_option("--runtime-dir", options.link.runtimeDir, "folder of libfsdp_runtime.so")
      ->capture_default_str();
  app.add_option(
      "--rpath", options.link.searchPath,
      "where the binary looks for libraries after its own folder and the folder lib beside it: "
      "FOLDER:FOLDER, or '' for nowhere else (--runtime-dir, relative to the binary's folder)");
  app.add_flag("--quiet", options.quiet, "print notes and errors only");
  app.add_option("-o,--output", options.output, "the training binary")->required();
  try {
    app.parse(argc, argv);
    checkSearchFlags(app, options);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  return run(options);
}
