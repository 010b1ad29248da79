//===- fsdp-compile.cpp - From a scheduled or planned module to a binary ---===//

#include "../FatalErrors.h"
#include "../FusionFlag.h"
#include "../PlacesNote.h"
#include "../SizeFlag.h"
#include "../Version.h"
#include "fsdp/Analysis/Program.h"
#include "fsdp/Analysis/Step.h"
#include "fsdp/Codegen/CpuKernels.h"
#include "fsdp/Codegen/PtxKernels.h"
#include "fsdp/CommandLine/UnknownFlag.h"
#include "fsdp/Export/BatchInputs.h"
#include "fsdp/Export/EmitObject.h"
#include "fsdp/Export/ExpectedDurations.h"
#include "fsdp/Export/LowerToPlan.h"
#include "fsdp/Files/SameFile.h"
#include "fsdp/IR/Fsdp.h"
#include "fsdp/IR/OutputFile.h"
#include "fsdp/IR/UnknownLocations.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "passes/Pipelines.h"
#include "passes/VerifyPhase.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <CLI/CLI.hpp>

using namespace mlir;

namespace {

struct Options {
  std::string input = "-", output;
  bool object = false, noVerify = false;
  std::string emit = "binary", memoryCap = "0", chip = fsdp::codegen::kOldestChip.str();
  fsdp::FusionChoice fusion = fsdp::FusionChoice::Off; // keeps the step's own kernels
  fsdp::cost::CostOptions costs;
  bool predicts = false, asksForChip = false;
  fsdp::LinkOptions link;
};

} // namespace

static int fail(const llvm::Twine &message) {
  llvm::errs() << "fsdp-compile: error: " << message << '\n';
  return 1;
}

/// Brings the module to the phase planned, and verifies it.
static LogicalResult planModule(ModuleOp module, const Options &options) {
  auto phase = module->getAttrOfType<fsdp::ModulePhaseAttr>(fsdp::FsdpDialect::getPhaseAttrName());
  PassManager manager(module.getContext());
  bool isScheduled = phase && phase.getValue() == fsdp::ModulePhase::Scheduled;
  if (isScheduled) {
    const std::string &cap = options.memoryCap, &profile = options.costs.profile;
    manager.addPass(
        fsdp::createFuse({.fusion = options.fusion, .memoryCap = cap, .profile = profile}));
    manager.addPass(fsdp::createPlanMemory({.memoryCap = cap, .profile = profile}));
  } else if (!phase || phase.getValue() != fsdp::ModulePhase::Planned) {
    return module.emitError("the module is '")
           << (phase ? fsdp::stringifyModulePhase(phase.getValue()) : "of no phase")
           << "', expected 'scheduled' or 'planned'; fsdp-opt --fsdp-pipeline schedules a captured "
              "module";
  } else if (options.fusion != fsdp::FusionChoice::Off) {
    return module.emitError("--fusion ")
           << (options.fusion == fsdp::FusionChoice::Exact  ? "exact"
               : options.fusion == fsdp::FusionChoice::Fast ? "fast"
                                                            : "auto")
           << " is for scheduled modules: this one is planned, with the kernels that it has";
  } else if (options.memoryCap != "0") {
    return module.emitError("--memory-cap ")
           << options.memoryCap
           << " is for scheduled modules: this one is planned, its arena is laid out";
  }
  if (!options.noVerify && failed(fsdp::verifyPhase(module)))
    return failure();
  if (isScheduled && !options.noVerify)
    manager.addPass(fsdp::createVerifyPlanned());
  return manager.run(module);
}

static llvm::Error compile(const std::vector<fsdp::PlanTables> &program, const Options &options) {
  llvm::Expected<llvm::SmallVector<char, 0>> object =
      fsdp::emitObject(program, {.withMain = !options.link.shared});
  if (!object)
    return object.takeError();
  return options.object ? fsdp::writeObject(*object, options.output)
                        : fsdp::linkObject(*object, options.output, options.link);
}

/// Prints the program's kernels as loops for CPUs, or as PTX.
static llvm::Error printKernels(ModuleOp program, const Options &options) {
  llvm::SmallVector<fsdp::KernelOp> kernels;
  for (ModuleOp module : fsdp::getSteps(program))
    llvm::append_range(kernels, module.getOps<fsdp::KernelOp>());
  std::string text;
  llvm::raw_string_ostream os(text);
  bool isBuilt = true;
  if (options.emit == "ptx") {
    FailureOr<fsdp::codegen::PtxKernels> code =
        fsdp::codegen::buildPtxKernels(kernels, options.chip);
    isBuilt = succeeded(code);
    if (isBuilt)
      os << code->ptx;
  } else {
    isBuilt = llvm::all_of(kernels, [&](fsdp::KernelOp kernel) {
      return succeeded(fsdp::codegen::printCpuKernel(kernel, os));
    });
  }
  if (!isBuilt)
    return llvm::createStringError("the kernels cannot be generated (see above)");
  return fsdp::printFile(options.output.empty() ? "-" : options.output,
                         [&](auto &out) { out << text; });
}

/// An error text if --chip was given but has no effect, else "".
static std::string findUselessChip(ModuleOp program, const Options &options) {
  if (!options.asksForChip)
    return "";
  if (options.emit == "kernels")
    return " is for the kernels of GPUs: --emit kernels prints those of CPUs";
  llvm::SmallVector<ModuleOp> steps = fsdp::getSteps(program);
  if (llvm::all_of(steps, [](ModuleOp step) { return step.getOps<fsdp::KernelOp>().empty(); }))
    return " is for generated kernels, of which there are none (--fusion)";
  if (options.emit != "ptx" && fsdp::getTarget(steps.front()) != fsdp::Target::Cuda)
    return " is for steps of GPUs and --emit ptx: this one was captured for CPUs";
  return "";
}

static int run(const Options &options) {
  DialectRegistry registry;
  registry.insert<func::FuncDialect, fsdp::aten::AtenDialect, fsdp::FsdpDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);

  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> file = mlir::openInputFile(options.input, &error);
  if (!file)
    return fail(error);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  SourceMgrDiagnosticHandler diagnostics(sources, &context);
  fsdp::hideUnknownLocations(context);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module || failed(planModule(*module, options))) {
    if (fsdp::hasPlacesOfSource(sources.getMemoryBuffer(sources.getMainFileID())->getBuffer()))
      fsdp::printPlacesNote("fsdp-compile", options.input);
    return 1;
  }
  if (std::string problem = findUselessChip(*module, options); !problem.empty())
    return fail("--chip " + options.chip + problem);
  if (options.emit == "kernels" || options.emit == "ptx") {
    llvm::Error failure = printKernels(*module, options);
    return failure ? fail(llvm::toString(std::move(failure))) : 0;
  }
  if (options.emit == "binary" && !options.link.shared)
    for (ModuleOp step : fsdp::getSteps(*module))
      if (failed(fsdp::checkBatchInputs(step)))
        return 1;
  FailureOr<std::vector<fsdp::PlanTables>> tables = fsdp::lowerProgram(*module, options.chip);
  if (failed(tables))
    return 1;
  if (options.predicts) {
    llvm::Expected<std::unique_ptr<fsdp::cost::CostModel>> costs =
        fsdp::cost::CostModel::create(options.costs);
    if (!costs)
      return fail(llvm::toString(costs.takeError()));
    for (fsdp::PlanTables &table : *tables)
      fsdp::setExpectedDurations(table, **costs);
  }
  const std::vector<fsdp_plan> plans = fsdp::linkPlans(*tables);
  llvm::Error failure = options.emit == "plan"
                            ? fsdp::printFile(options.output.empty() ? "-" : options.output,
                                              [&](auto &os) { fsdp::printPlan(plans.front(), os); })
                            : compile(*tables, options);
  return failure ? fail(llvm::toString(std::move(failure))) : 0;
}

int main(int argc, char **argv) {
  fsdp::endOnFatalErrors("fsdp-compile");
  CLI::App app("Compiles a scheduled or planned training step to a native training binary.",
               "fsdp-compile");
  fsdp::reportUnknownFlags(app);
  app.set_version_flag("--version", fsdp::getVersion("fsdp-compile"));
  Options options;
  options.link.runtimeDir = fsdp::getDefaultRuntimeDir(argv[0]);
  app.add_option("INPUT", options.input,
                 "Scheduled or planned module, text or bytecode; - is "
                 "standard input");
  app.add_option("-o,--output", options.output, "The file to write");
  auto *shared = app.add_flag("--shared", options.link.shared,
                              "Write a shared library that defines fsdp_step_plan, without main");
  auto *object =
      app.add_flag("--object", options.object, "Write an object file, with main, for linking");
  shared->excludes(object);
  app.add_option("--emit", options.emit,
                 "binary; plan: the plan as text for people; kernels: the loops of the generated "
                 "kernels as text; ptx: the generated kernels for a GPU")
      ->check(CLI::IsMember({"binary", "plan", "kernels", "ptx"}))
      ->excludes(shared)
      ->excludes(object);
  fsdp::addSizeFlag(app, "--memory-cap", options.memoryCap,
                    "Refuse a larger arena: 80000000, 70GiB, 80GB (scheduled modules; 0: no cap)");
  fsdp::addFusionFlag(app, options.fusion,
                      "Elementwise operators that become generated kernels, in a scheduled module "
                      "without kernels: off (none), exact (torch's bits), fast (computed in fp32, "
                      "rounded once), or auto: fast for CUDA, exact for CPUs");
  app.add_option("--chip", options.chip, "The oldest GPU that runs the generated kernels")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(fsdp::codegen::kChips),
                                                     std::end(fsdp::codegen::kChips))))
      ->capture_default_str();
  app.add_option("--device", options.costs.device,
                 "Device that predicts how long collectives take: h100, h200, b200, a100, cpu. "
                 "With --device, --profile or --network, the run's watchdog adds the predicted "
                 "time of each collective to its limit");
  app.add_option("--profile", options.costs.profile,
                 "Durations and temporaries measured by fsdp-profile")
      ->check(CLI::ExistingFile);
  app.add_option(
      "--network", options.costs.network,
      "Network that predicts how long collectives take: a preset or a JSON file (the device's)");
  app.add_flag("--no-verify", options.noVerify,
               "Do not prove that the module is a sound step (fsdp-verify-scheduled, -planned)");
  app.add_option("--linker", options.link.linker,
                 "C++ compiler driver that links (default: the one that built this tool)");
  app.add_option("--runtime-dir", options.link.runtimeDir, "Folder of libfsdp_runtime.so")
      ->capture_default_str();
  app.add_option(
      "--rpath", options.link.searchPath,
      "Where the binary looks for libraries after its own folder and the folder lib beside it: "
      "FOLDER:FOLDER, or '' for nowhere else (--runtime-dir, relative to the binary's folder)");
  CLI11_PARSE(app, argc, argv);
  options.asksForChip = app.count("--chip");
  options.predicts = app.count("--device") || app.count("--profile") || app.count("--network");
  if (options.emit == "binary" && options.output.empty())
    return fail("-o is needed: where to write the binary");
  if (std::optional<std::string> clash = fsdp::findClash({{"INPUT", options.input},
                                                          {"--profile", options.costs.profile},
                                                          {"--network", options.costs.network}},
                                                         {{"-o", options.output}}))
    return fail(*clash);
  return run(options);
}
