//===- fsdp-plan.cpp - Predicts a step on other meshes --------------------===//

#include "../CostFlags.h"
#include "../FatalErrors.h"
#include "../FusionFlag.h"
#include "../SizeFlag.h"
#include "../TransportFlag.h"
#include "../Version.h"
#include "Inputs.h"
#include "Jobs.h"
#include "Reports.h"
#include "fsdp/CommandLine/UnknownFlag.h"
#include "fsdp/Config/ShardingConfig.h"
#include "fsdp/Explain/Quantities.h"
#include "fsdp/Files/SameFile.h"
#include "fsdp/IR/OutputFile.h"
#include "llvm/ADT/StringExtras.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <thread>

using namespace fsdp;
using namespace fsdp::plan_tool;

namespace {

struct Options {
  std::vector<std::string> inputs, caps, recompute = {"auto"};
  std::string mesh = "dp=8..16384", offload = "none", activations = "none", chunks = "none", json,
              csv, html;
  int64_t fitsBytes = 0;      // 0: a sweep
  int64_t reservedBytes = -1; // less than 0: the cost model's
  bool triesReplicas = false;
  unsigned jobs = 0; // threads; 0: one for each core
  PlanSettings settings;
  SweepOptions sweep;
};

const std::map<std::string, OffloadPolicy> kOffloads = {
    {"none", OffloadPolicy::None}, {"auto", OffloadPolicy::Auto}, {"all", OffloadPolicy::All}};

} // namespace

static int fail(const llvm::Twine &message) {
  llvm::errs() << "fsdp-plan: error: " << message << '\n';
  return 1;
}
static int fail(llvm::Error error) { return fail(llvm::toString(std::move(error))); }

/// Parses "dp=64", "dp=8,64,512" or "dp=8..16384" (powers of two times 8), each optionally after
/// "replicate=2,".
static llvm::Error parseMeshes(llvm::StringRef mesh, PlanSettings &settings,
                               std::vector<MeshSize> &meshes) {
  int64_t replicas = 1;
  auto addMesh = [&](int64_t shards) { meshes.push_back({shards, replicas}); };
  auto wrong = [&](const llvm::Twine &why) {
    return llvm::createStringError("--mesh: '" + mesh + "' " + why);
  };
  auto [axis, ranks] = mesh.split('=');
  if (ranks.contains('=')) {
    auto [number, sharded] = ranks.split(',');
    settings.replicateAxis = axis.str();
    if (number.getAsInteger(10, replicas) || replicas < 1 || replicas > (1 << 20))
      return wrong("has '" + number + "' replicas; expected a number from 1 to 1048576");
    std::tie(axis, ranks) = sharded.split('=');
  }
  if (axis.empty() || ranks.empty() || ranks.contains('='))
    return wrong("is no mesh; expected AXIS=RANKS, AXIS=8,64,512 or AXIS=8..16384, or one of these "
                 "behind replicate=R,");
  settings.axis = axis.str();
  auto parse = [](llvm::StringRef text, int64_t &value) {
    return text.getAsInteger(10, value) || value < 2 || value > kMaxRanks;
  };
  auto [first, last] = ranks.split("..");
  if (ranks.contains("..")) {
    int64_t low, high;
    if (parse(first, low) || parse(last, high) || low > high)
      return wrong("is no range of ranks; expected two numbers of at least 2, the smaller first");
    for (int64_t count = low; count <= high; count *= 2)
      addMesh(count);
  } else {
    for (llvm::StringRef text : llvm::split(ranks, ',')) {
      int64_t count;
      if (parse(text, count))
        return wrong("has '" + text + "' ranks; expected a number from 2 to " +
                     llvm::Twine(kMaxRanks));
      addMesh(count);
    }
  }
  for (MeshSize size : meshes)
    if (std::optional<std::string> problem = checkRanks({size.replicas, size.shards}))
      return wrong(*problem);
  return llvm::Error::success();
}

/// Adds, for each mesh, the meshes of as many ranks with 2, 4, ... replicas of at least 2 shards.
static llvm::Error addReplicas(PlanSettings &settings, std::vector<MeshSize> &meshes) {
  if (!settings.replicateAxis.empty())
    return llvm::createStringError("--hsdp tries numbers of replicas, but --mesh says one already");
  if (settings.axis == "replicate")
    return llvm::createStringError("--hsdp has an axis 'replicate'; name that of --mesh otherwise");
  settings.replicateAxis = "replicate";
  std::vector<MeshSize> split;
  for (MeshSize whole : meshes)
    for (MeshSize size = whole; size.shards >= 2; size.shards /= 2, size.replicas *= 2) {
      split.push_back(size);
      if (size.shards % 2 != 0)
        break;
    }
  meshes = std::move(split);
  return llvm::Error::success();
}

static llvm::Error parseRequests(Options &options) {
  if (llvm::Error error = parseMeshes(options.mesh, options.settings, options.sweep.meshes))
    return error;
  if (options.triesReplicas)
    if (llvm::Error error = addReplicas(options.settings, options.sweep.meshes))
      return error;
  for (const std::string &text : options.caps) {
    llvm::Expected<int64_t> bytes = parseSizeBytes(text, "--memory-cap");
    if (!bytes)
      return bytes.takeError();
    if (*bytes <= 0)
      return llvm::createStringError("--memory-cap: '" + text + "' leaves no memory");
    options.sweep.capBytes.push_back(*bytes);
  }
  llvm::sort(options.sweep.capBytes);
  options.sweep.recompute.clear();
  for (const std::string &name : options.recompute)
    options.sweep.recompute.push_back(*symbolizeRecomputePolicy(name));
  options.sweep.state = kOffloads.at(options.offload);
  options.sweep.activations = kOffloads.at(options.activations);
  options.sweep.chunks = kOffloads.at(options.chunks);
  return llvm::Error::success();
}

static std::optional<std::string> findClash(const Options &options) {
  std::vector<NamedPath> read = {{"--config", options.settings.config},
                                 {"--profile", options.settings.costs.profile},
                                 {"--network", options.settings.costs.network}};
  for (const std::string &path : options.inputs)
    read.push_back({"INPUT", path});
  return fsdp::findClash(
      read, {{"--json", options.json}, {"--csv", options.csv}, {"--html", options.html}});
}

using Writer = std::function<void(llvm::raw_ostream &)>;

/// Writes the files; prints the text unless a file is standard output.
static int write(llvm::ArrayRef<std::pair<std::string, Writer>> files, const Writer &printText) {
  bool isPrinted = true;
  for (auto &[path, writeFile] : files) {
    isPrinted &= path != "-";
    if (!path.empty())
      if (llvm::Error error = printFile(path, writeFile))
        return fail(std::move(error));
  }
  if (isPrinted)
    if (llvm::Error error = printFile("-", printText))
      return fail(std::move(error));
  return 0;
}

/// A request, and the input that it is for.
struct Task {
  size_t input;
  PointRequest request;
};

/// The number of threads: as asked, else one for each core.
static unsigned countJobs(const Options &options, size_t numTasks) {
  unsigned jobs = options.jobs > 0 ? options.jobs : std::thread::hardware_concurrency();
  return std::clamp<unsigned>(jobs, 1, static_cast<unsigned>(numTasks));
}

/// Calls `plan(planner, request, progress)` for each task, on several threads, and returns what it
/// returns, by task. `inputs` are those of the first thread.
template <typename Result>
static mlir::FailureOr<std::vector<Result>>
planAll(const Options &options, const InputTexts &texts, const Inputs &inputs,
        llvm::ArrayRef<Task> tasks,
        llvm::function_ref<mlir::FailureOr<Result>(const PointPlanner &, const PointRequest &,
                                                   const ProgressReport &)>
            plan) {
  const unsigned numJobs = countJobs(options, tasks.size());
  std::vector<std::unique_ptr<Inputs>> others(numJobs - 1);
  std::vector<Result> results(tasks.size());
  ProgressLine progress(tasks.size());
  auto work = [&](unsigned job, size_t item) {
    const Task &task = tasks[item];
    if (job > 0 && !others[job - 1])
      others[job - 1] = llvm::cantFail(Inputs::load(texts, options.settings));
    const Inputs &own = job == 0 ? inputs : *others[job - 1];
    mlir::FailureOr<Result> result = plan(own.getPlanners()[task.input], task.request,
                                          [&](const std::string &next) { progress.show(next); });
    progress.countDone();
    if (succeeded(result))
      results[item] = std::move(*result);
    return llvm::LogicalResult(result);
  };
  if (failed(runJobs(tasks.size(), numJobs, work)))
    return mlir::failure();
  return results;
}

static int printFits(const Options &options, llvm::ArrayRef<Fit> fits, const SweepHeader &header,
                     const DeviceMemory &memory, const Writer &printRemarks) {
  return write(
      {{options.json, [&](llvm::raw_ostream &os) { writeFitsJson(fits, header, memory, os); }}},
      [&](llvm::raw_ostream &os) {
        plan_tool::printFits(fits, memory, os);
        printRemarks(os);
      });
}

static int printSweep(const Options &options, llvm::ArrayRef<SweepPoint> points,
                      const SweepHeader &header, const Writer &printRemarks) {
  return write({{options.json, [&](llvm::raw_ostream &os) { writeJson(points, header, os); }},
                {options.csv, [&](llvm::raw_ostream &os) { writeCsv(points, os); }},
                {options.html, [&](llvm::raw_ostream &os) { writePlanPage(points, header, os); }}},
               [&](llvm::raw_ostream &os) {
                 printTable(points, os);
                 if (options.sweep.globalBatch > 0)
                   printFastest(points, os);
                 printRemarks(os);
               });
}

static int run(Options &options) {
  if (llvm::Error error = parseRequests(options))
    return fail(std::move(error));
  if (std::optional<std::string> clash = findClash(options))
    return fail(*clash);
  llvm::Expected<InputTexts> texts = InputTexts::read(options.inputs);
  if (!texts)
    return fail(texts.takeError());
  llvm::Expected<std::unique_ptr<Inputs>> inputs = Inputs::load(*texts, options.settings);
  if (!inputs)
    return fail(inputs.takeError());
  const cost::CostModel &costs = (*inputs)->getCosts();

  const bool isSweep = options.fitsBytes == 0;
  const DeviceMemory memory = {isSweep ? costs.getMemoryBytes() : options.fitsBytes,
                               options.reservedBytes >= 0 ? options.reservedBytes
                                                          : costs.getReservedBytes()};
  if (!isSweep && memory.getCapBytes() <= 0)
    return fail("--fits is " + explain::formatBytes(memory.bytes) +
                ", but driver and libraries alone need " +
                explain::formatBytes(memory.reservedBytes) + " (--reserve)");
  options.sweep.deviceBytes = std::max<int64_t>(0, memory.getCapBytes());

  std::vector<Task> tasks;
  std::vector<std::string> refused;
  for (auto [input, planner] : llvm::enumerate((*inputs)->getPlanners()))
    for (PointRequest &request : listRequests(planner, options.sweep, refused))
      tasks.push_back({input, std::move(request)});
  if (tasks.empty())
    return fail("--global-batch: " + llvm::join(refused, "; "));
  auto printRemarks = [&](llvm::raw_ostream &os) {
    for (const std::string &line : refused)
      os << line << '\n';
    const std::vector<int64_t> &caps = options.sweep.capBytes;
    if (memory.bytes > 0 && !caps.empty() && caps.back() > memory.getCapBytes())
      os << "driver and libraries leave " << explain::formatBytes(memory.getCapBytes())
         << " of the device's memory to a step\n";
  };

  const SweepHeader header = {options.settings.costs.device, costs.describeSources(),
                              costs.getMemoryBytes()};
  if (!isSweep) {
    mlir::FailureOr<std::vector<Fit>> fits =
        planAll<Fit>(options, *texts, **inputs, tasks,
                     [&](const PointPlanner &planner, const PointRequest &request,
                         const ProgressReport &progress) {
                       return findFit(planner, request, memory, progress);
                     });
    return failed(fits) ? 1 : printFits(options, *fits, header, memory, printRemarks);
  }
  using Points = std::vector<SweepPoint>;
  mlir::FailureOr<std::vector<Points>> found =
      planAll<Points>(options, *texts, **inputs, tasks,
                      [&](const PointPlanner &planner, const PointRequest &request,
                          const ProgressReport &progress) {
                        return sweep(planner, request, options.sweep, progress);
                      });
  if (failed(found))
    return 1;
  Points points;
  for (Points &ofRequest : *found)
    llvm::move(ofRequest, std::back_inserter(points));
  markPareto(points, options.sweep.globalBatch > 0);
  return printSweep(options, points, header, printRemarks);
}

int main(int argc, char **argv) {
  fsdp::endOnFatalErrors("fsdp-plan");
  CLI::App app(
      "Predicts a captured training step on many meshes under many memory caps, and prints the "
      "best schedule for each. Needs no device. Shapes are fixed at capture: for microbatches of "
      "other sizes give several captured modules. Defaults are in parentheses.",
      "fsdp-plan");
  reportUnknownFlags(app);
  app.set_version_flag("--version", getVersion("fsdp-plan"));
  Options options;
  app.add_option("INPUT", options.inputs, "Captured modules, text or bytecode; - is standard input")
      ->required();
  app.add_option("--mesh", options.mesh,
                 "Numbers of ranks: dp=64, dp=8,64,512, or dp=8..16384, which doubles from 8; "
                 "after replicate=R, they are the ranks of each of R replicas")
      ->capture_default_str();
  app.add_flag("--hsdp", options.triesReplicas,
               "Try each number of ranks also with 2, 4, ... replicas of fewer shards");
  CLI::Option *microbatches = app.add_option("--microbatches", options.sweep.microbatches,
                                             "Numbers of microbatches of a step to try: 1,2,4 (1)")
                                  ->delimiter(',')
                                  ->check(CLI::Range(1, 1 << 20));
  CLI::Option *globalBatch =
      app.add_option("--global-batch", options.sweep.globalBatch,
                     "Tokens (or samples) of a step of all ranks: takes as many microbatches as "
                     "make it, and tells the fastest step on as many ranks")
          ->check(CLI::PositiveNumber)
          ->excludes(microbatches);
  CLI::Option *syncs =
      app.add_option("--gradient-sync", options.sweep.gradientSync,
                     "Microbatches after which gradients are reduced, to try: each, last (each)")
          ->delimiter(',')
          ->check(CLI::IsMember({"each", "last"}));
  CLI::Option *caps =
      app.add_option("--memory-cap", options.caps,
                     "Caps to try: 40GiB,80GiB (the device's memory, then less in steps)")
          ->delimiter(',');
  addCostFlags(app, options.settings.costs);
  app.add_option("--config", options.settings.config, "YAML file with groups, in FSDP2's terms")
      ->check(CLI::ExistingFile);
  app.add_option("--recompute", options.recompute,
                 "Policies of recomputation to try: none, cheap, "
                 "selected, full, auto, as --recompute of fsdpc")
      ->delimiter(',')
      ->check(CLI::IsMember({"none", "cheap", "selected", "full", "auto"}))
      ->capture_default_str();
  CLI::Option *offload = app.add_option("--offload-optimizer", options.offload,
                                        "Groups whose optimizer state is on the host: none; all; "
                                        "auto: where the step does not fit otherwise, or is "
                                        "faster")
                             ->check(CLI::IsMember(kOffloads))
                             ->capture_default_str();
  app.add_option("--offload-activations", options.activations,
                 "Blocks whose activations wait for the backward on the host: none; all; auto: "
                 "those for which this is faster than recomputation")
      ->check(CLI::IsMember(kOffloads))
      ->capture_default_str();
  app.add_option("--offload-chunks", options.chunks,
                 "Chunks, which the ranks of a host keep of a group between forward and backward, "
                 "on the host: none; auto: those for which a search decides this")
      ->check(CLI::IsMember({"none", "auto"}))
      ->capture_default_str();
  addTransportFlag(app, options.settings.transport);
  addFusionFlag(app, options.sweep.fusion,
                "Elementwise operators that become generated kernels, as --fusion of fsdpc: off, "
                "exact, fast, or auto: fast for CUDA, exact for CPUs");
  app.add_option("--budget", options.settings.simulationBudget,
                 "Number of simulations of a search; if its plan takes over 1 % longer than the "
                 "bound, a second search of three times as many follows")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  addSizeFlag(app, "--max-bucket-size", options.settings.maxBucketBytes,
              "Upper limit on the bytes of one launch of several collectives, as 1GiB (no limit)");
  app.add_option("-j,--jobs", options.jobs,
                 "Number of threads, which does not change results (one for each core)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--json", options.json, "Write all points here (JSON); - is standard output");
  CLI::Option *sweepOutputs[] = {
      app.add_option("--csv", options.csv, "Write all points here (CSV); - is standard output"),
      app.add_option("--html", options.html, "Write a page with plots here; - is standard output")};
  CLI::Option *fits =
      addSizeFlag(app, "--fits", options.fitsBytes,
                  "Instead of a sweep: tell whether the step fits in this much memory, as 80GiB, "
                  "what the memory is used for, and otherwise what would help. Puts optimizer "
                  "state on the host as needed, unless a flag says otherwise")
          ->excludes(caps);
  for (CLI::Option *output : sweepOutputs)
    fits->excludes(output);
  addSizeFlag(
      app, "--reserve", options.reservedBytes,
      "Device memory that the driver and libraries take beside the step, as 1GiB (an estimate for "
      "the device). Used by --fits, and for the caps that are tried without --memory-cap")
      ->excludes(caps);
  CLI11_PARSE(app, argc, argv);
  if (fits->count() > 0) {
    if (options.fitsBytes == 0)
      return fail("--fits is 0, expected some memory");
    if (options.recompute.size() > 1)
      return fail("--fits takes one policy of --recompute, but there are " +
                  llvm::Twine(options.recompute.size()));
    for (CLI::Option *option : {microbatches, syncs})
      if (option->results().size() > 1)
        return fail("--fits takes one value of " + option->get_name() + ", but there are " +
                    llvm::Twine(option->results().size()));
    if (offload->count() == 0)
      options.offload = "auto";
  }
  if (syncs->count() > 0 && globalBatch->count() == 0 &&
      llvm::all_of(options.sweep.microbatches, [](int64_t number) { return number == 1; }))
    return fail("--gradient-sync is of several --microbatches, but there is one");
  return run(options);
}
