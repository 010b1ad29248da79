//===- fsdp-profile.cpp - Measures durations of a step's operations --------===//

#include "../FatalErrors.h"
#include "../FusionFlag.h"
#include "../Version.h"
#include "CollectiveProfiler.h"
#include "HostDescription.h"
#include "RefitFiles.h"
#include "StepProfiler.h"
#include "executor/OperatorLibrary.h"
#include "fsdp/CommandLine/UnknownFlag.h"
#include "fsdp/CostModel/Device.h"
#include "fsdp/Explain/ModuleFile.h"
#include "fsdp/Files/SameFile.h"
#include "fsdp/IR/OutputFile.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdlib>
#include <optional>

using namespace fsdp;

namespace {

struct Options {
  std::string input, output, device = "cpu", roofline, communicator, clock = "wall";
  std::vector<std::string> libraries; // of operators
  profile::RefitPaths refit;          // without the step and the profile to write
  FusionChoice fusion = FusionChoice::Auto;
  bool collectives = false;
  int64_t ranks = 0;
  int threads = 1, samples = 20;
};

struct Gpu {
  rt::DeviceBackend *backend;
  std::string name, roofline;
};

} // namespace

static int fail(const llvm::Twine &message) {
  llvm::errs() << "fsdp-profile: error: " << message << '\n';
  return 1;
}

static int fail(llvm::Error error) { return fail(llvm::toString(std::move(error))); }

static std::string milliseconds(double durationNs) {
  return llvm::formatv("{0:f3} ms", durationNs / 1e6);
}

/// Opens the backend library of --device cuda and finds the GPU's name and roofline.
static llvm::Expected<Gpu> openGpu(const Options &options) {
  auto refused = [](const rt::Status &status) { return llvm::createStringError(status.message()); };
  rt::Result<rt::DeviceBackend *> backend = rt::loadDeviceBackend("cuda");
  if (!backend.ok())
    return refused(backend.status());
  rt::Result<std::string> name = (*backend)->nameDevice(0);
  if (!name.ok())
    return refused(name.status());
  if (!options.roofline.empty())
    return Gpu{*backend, *name, options.roofline};
  if (const cost::Device *device = cost::findProduct(*name))
    return Gpu{*backend, *name, device->name.str()};
  return llvm::createStringError("--device cuda: no roofline is known for '" + *name +
                                 "'; name the nearest one with --roofline");
}

static llvm::Expected<cost::Profile> measureOnCpus(const profile::PlannedStep &step,
                                                   const Options &options) {
  bool wall = options.clock == "wall";
  auto profile = profile::profileOnCpus(
      step, {options.threads, options.samples, wall ? profile::Clock::Wall : profile::Clock::Cpu});
  if (!profile)
    return profile.takeError();
  profile->device = "cpu";
  profile->description = profile::describeHost() + ", " + std::to_string(options.threads) +
                         (options.threads == 1 ? " thread" : " threads") + " per rank" +
                         (wall ? "" : ", CPU time");
  return profile;
}

static llvm::Expected<cost::Profile> measureOnGpu(const profile::PlannedStep &step, const Gpu &gpu,
                                                  const Options &options) {
  auto profile = profile::profileOnDevice(step, *gpu.backend, options.samples);
  if (!profile)
    return profile.takeError();
  profile->device = gpu.roofline;
  profile->description = gpu.name + ", rank 0 of " + std::to_string(step.getPlan().world_size);
  return profile;
}

static llvm::Expected<cost::Profile>
measure(const profile::PlannedStep &step, const std::optional<Gpu> &gpu, const Options &options) {
  return gpu ? measureOnGpu(step, *gpu, options) : measureOnCpus(step, options);
}

static void printParts(const cost::Profile &profile) {
  const cost::ProfiledStep &parts = profile.step;
  llvm::errs() << "fsdp-profile: step " << milliseconds(parts.durationNs) << " on " << profile.ranks
               << (profile.ranks == 1 ? " rank: " : " ranks: ") << profile.calls.size()
               << " distinct calls " << milliseconds(parts.callsNs);
  if (!profile.kernels.empty())
    llvm::errs() << ", " << profile.kernels.size() << " distinct kernels "
                 << milliseconds(parts.kernelsNs);
  llvm::errs() << ", updates " << milliseconds(parts.updatesNs) << ", copies "
               << milliseconds(parts.copiesNs) << ", collectives "
               << milliseconds(parts.collectivesNs) << '\n';
}

/// Adds measurements of the calls that occur only in the step without kernels: a search tries that
/// form, too, where the step with kernels does not fit a cap. If the step without kernels cannot
/// run, for lack of memory, prints a warning and adds nothing.
static void addCallsWithoutKernels(cost::Profile &profile, mlir::ModuleOp module,
                                   const std::optional<Gpu> &gpu, const Options &options) {
  llvm::Expected<profile::PlannedStep> step =
      profile::planStep(module, options.ranks, FusionChoice::Off);
  llvm::Expected<cost::Profile> unfused = step ? measure(*step, gpu, options) : step.takeError();
  if (!unfused) {
    llvm::errs() << "fsdp-profile: warning: the operators that kernels stand for are not measured: "
                 << llvm::toString(unfused.takeError()) << '\n';
    return;
  }
  llvm::StringSet<> known;
  for (const cost::ProfiledCall &call : profile.calls)
    known.insert(call.key.str());
  const size_t before = profile.calls.size();
  llvm::copy_if(unfused->calls, std::back_inserter(profile.calls),
                [&](const cost::ProfiledCall &call) { return !known.contains(call.key.str()); });
  llvm::errs() << "fsdp-profile: without kernels: step " << milliseconds(unfused->step.durationNs)
               << ", " << profile.calls.size() - before << " more distinct calls\n";
}

static int profileStep(const Options &options) {
  if (options.clock == "cpu" && options.threads > 1)
    return fail("--clock cpu counts one thread, --threads " + std::to_string(options.threads) +
                " are asked for");
  std::optional<Gpu> gpu;
  if (options.device == "cuda") {
    llvm::Expected<Gpu> opened = openGpu(options);
    if (!opened)
      return fail(opened.takeError());
    gpu = *opened;
  }
  for (const std::string &library : options.libraries)
    if (rt::Status status = rt::loadOperatorLibrary(library); !status.ok())
      return fail(status.message());
  auto file = explain::ModuleFile::read(options.input);
  if (!file)
    return fail(file.takeError());
  mlir::ModuleOp module = (*file)->get();
  std::optional<profile::PlannedStep> step;
  if (auto planned = profile::planStep(module, options.ranks, options.fusion))
    step = std::move(*planned);
  else
    return fail("'" + options.input + "': " + llvm::toString(planned.takeError()));
  // The file is opened before anything is measured.
  llvm::Error error = writeFile(options.output, [&](llvm::raw_ostream &os) -> llvm::Error {
    llvm::Expected<cost::Profile> profile = measure(*step, gpu, options);
    if (!profile)
      return profile.takeError();
    profile->source = profile::describeVersions();
    printParts(*profile);
    const bool isFusedHere = step->hasKernels() && !profile::hasKernels(module);
    step.reset(); // the memory may not hold two steps
    if (isFusedHere)
      addCallsWithoutKernels(*profile, module, gpu, options);
    cost::writeProfile(*profile, os);
    return llvm::Error::success();
  });
  return error ? fail(std::move(error)) : 0;
}

/// Decides on the ranks and the communicator, from flags and the launcher's environment.
static llvm::Expected<profile::CollectiveOptions> decideRanks(const Options &options) {
  auto get = [](const char *name) -> const char * { return std::getenv(name); };
  auto environment = rt::readLaunchEnvironment(get);
  if (!environment.ok())
    return llvm::createStringError(environment.status().message());
  bool isGpu = options.device == "cuda";
  const std::string &wanted = options.communicator;
  if (isGpu && !wanted.empty())
    return llvm::createStringError("--communicator " + wanted +
                                   " is for --device cpu; GPUs are connected by NCCL");
  profile::CollectiveOptions collectives;
  collectives.device = options.device;
  collectives.samples = options.samples;
  if (!*environment || (*environment)->worldSize == 1) {
    if (wanted == "gloo")
      return llvm::createStringError(
          "--communicator gloo needs a launcher: torchrun, mpirun, srun");
    if (options.ranks < 2)
      return llvm::createStringError("--collectives needs --ranks, at least 2");
    collectives.ranks = static_cast<unsigned>(options.ranks);
    collectives.communicator = isGpu ? "local" : wanted.empty() ? "shm" : wanted;
    return collectives;
  }
  collectives.launch = **environment;
  collectives.ranks = collectives.launch->worldSize;
  std::string started =
      collectives.launch->launcher + " started " + std::to_string(collectives.ranks) + " processes";
  if (options.ranks != 0 && options.ranks != collectives.ranks)
    return llvm::createStringError("--ranks " + std::to_string(options.ranks) + ", but " + started);
  if (wanted == "local")
    return llvm::createStringError("--communicator local connects threads of one process, but " +
                                   started);
  collectives.oneHost = rt::shareHost(*collectives.launch, get);
  collectives.communicator = !wanted.empty() ? wanted : collectives.oneHost ? "shm" : "gloo";
  return collectives;
}

static int profileCollectives(const Options &options) {
  llvm::Expected<profile::CollectiveOptions> collectives = decideRanks(options);
  if (!collectives)
    return fail(collectives.takeError());
  if (collectives->launch && collectives->launch->rank != 0) {
    llvm::Expected<std::string> network = profile::profileCollectives(*collectives);
    return network ? 0 : fail(network.takeError());
  }
  // The file is opened before anything is measured.
  llvm::Error error = writeFile(options.output, [&](llvm::raw_ostream &os) -> llvm::Error {
    llvm::Expected<std::string> network = profile::profileCollectives(*collectives);
    if (!network)
      return network.takeError();
    os << *network;
    return llvm::Error::success();
  });
  return error ? fail(std::move(error)) : 0;
}

/// Refuses flags for GPUs when CPUs are measured, and the other way round.
static llvm::Error checkDeviceFlags(const CLI::App &app, const Options &options) {
  if (options.device == "cuda") {
    for (const char *flag : {"--threads", "--clock"})
      if (app.count(flag))
        return llvm::createStringError(std::string(flag) +
                                       " is for --device cpu, but --device cuda is asked for");
  }
  if (options.roofline.empty())
    return llvm::Error::success();
  if (options.device == "cpu" || options.roofline == "cpu")
    return llvm::createStringError("--roofline " + options.roofline + " --device " +
                                   options.device + ": it is for GPUs");
  return cost::lookupDevice(options.roofline).takeError();
}

static int refit(const Options &options) {
  profile::RefitPaths paths = options.refit;
  paths.step = options.input;
  paths.outputProfile = options.output;
  llvm::Error error = profile::refitFiles(paths, llvm::errs());
  return error ? fail(std::move(error)) : 0;
}

/// After the flags of measurements, which a refit excludes.
static void addRefitFlags(CLI::App &app, profile::RefitPaths &paths) {
  CLI::Option *refit = app.add_option(
      "--refit", paths.trace,
      "Measure nothing: refit --profile and --network to the timeline that the training binary of "
      "STEP, scheduled or planned, measured (its --trace); prints the errors of the predictions");
  for (const char *flag : {"--collectives", "--ranks", "--device", "--roofline", "--threads",
                           "--clock", "--load-library", "--fusion", "--samples"})
    refit->excludes(app.get_option(flag));
  auto add = [&](const char *flag, std::string &path, const char *description) {
    refit->needs(app.add_option(flag, path, description)->needs(refit));
  };
  add("--profile", paths.profile, "Durations to refit: a JSON file of fsdp-profile");
  add("--network", paths.network, "Network to refit: a preset or a JSON file");
  add("--output-network", paths.outputNetwork,
      "JSON file of the refitted network; - is standard output");
}

int main(int argc, char **argv) {
  fsdp::endOnFatalErrors("fsdp-profile");
  // A rank that dies closes its pipes and sockets. Writes to them are then errors to report, not
  // signals that end this process.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Measures the durations of a step's operations, or of collectives, on this machine, "
               "or refits measured durations to a run.",
               "fsdp-profile");
  reportUnknownFlags(app);
  app.set_version_flag("--version", getVersion("fsdp-profile"));
  Options options;
  auto *input =
      app.add_option("STEP", options.input,
                     "Module of a step in any phase, text or bytecode; - is standard input");
  app.add_option("-o,--output", options.output, "JSON file to write; - is standard output")
      ->required();
  CLI::Option *collectives =
      app.add_flag("--collectives", options.collectives, "Measure collectives instead of a step")
          ->excludes(input);
  app.add_option("--ranks", options.ranks,
                 "Number of ranks of the step (default: its own; of a captured step those of its "
                 "export, else 1), or of the collectives (default: the launcher's)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--communicator", options.communicator,
                 "Communicator of CPUs: shm: processes on this host (default); local: threads of "
                 "this process; gloo: processes on several hosts, which a launcher starts")
      ->check(CLI::IsMember({"shm", "local", "gloo"}))
      ->needs(collectives);
  app.add_option(
         "--device", options.device,
         "cpu, or cuda: a step runs on the first GPU, collectives run between one GPU per rank")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option(
         "--roofline", options.roofline,
         "Device whose roofline predicts what the profile lacks (default: found by the GPU's name)")
      ->excludes(collectives);
  app.add_option("--threads", options.threads, "Threads of torch, per rank")
      ->check(CLI::Range(1, 1024))
      ->excludes(collectives)
      ->capture_default_str();
  app.add_option("--clock", options.clock,
                 "wall: elapsed time; cpu: CPU time of the thread, for a machine on which other "
                 "programs run")
      ->check(CLI::IsMember({"wall", "cpu"}))
      ->excludes(collectives)
      ->capture_default_str();
  app.add_option(
         "--load-library", options.libraries,
         "Shared library of operators that the step uses and torch lacks; once for each library")
      ->allow_extra_args(false)
      ->check(CLI::ExistingFile)
      ->excludes(collectives);
  addFusionFlag(app, options.fusion,
                "Elementwise operators that become generated kernels, in a step without kernels: "
                "off, exact, fast, or auto: as fsdpc decides for captured and sharded steps, off "
                "for others. The operators inside kernels are measured by themselves, too")
      ->excludes(collectives);
  app.add_option("--samples", options.samples,
                 "Number of measured steps, or of collectives of each size")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  addRefitFlags(app, options.refit);
  CLI11_PARSE(app, argc, argv);
  if (options.collectives)
    return profileCollectives(options);
  if (options.input.empty())
    return fail("a step, or --collectives, is needed");
  if (llvm::Error error = checkDeviceFlags(app, options))
    return fail(std::move(error));
  if (!options.refit.trace.empty())
    return refit(options);
  std::vector<NamedPath> inputs = {{"STEP", options.input}};
  for (const std::string &library : options.libraries)
    inputs.push_back({"--load-library", library});
  if (std::optional<std::string> clash = findClash(inputs, {{"-o", options.output}}))
    return fail(*clash);
  return profileStep(options);
}
