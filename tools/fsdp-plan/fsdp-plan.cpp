//===- fsdp-plan.cpp - Predicts a step on other meshes --------------------===//

#include "../CostFlags.h"
#include "../FatalErrors.h"
#include "../FusionFlag.h"
#include "../SizeFlag.h"
#include "../TransportFlag.h"
#include "../Version.h"
#include "Inputs.h"
#include "Interruption.h"
#include "Jobs.h"
#include "Meshes.h"
#include "Reports.h"
#include "fsdp/CommandLine/UnknownFlag.h"
#include "fsdp/Explain/Quantities.h"
#include "fsdp/Files/SameFile.h"
#include "fsdp/IR/OutputFile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

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

template <typename Result>
using Plan = llvm::function_ref<llvm::LogicalResult(const PointPlanner &, const PointRequest &,
                                                    const Listener<Result> &)>;

/// Calls `plan` for each task, on several threads. `inputs` are those of the first thread.
template <typename Result>
static llvm::LogicalResult planAll(const Options &options, const InputTexts &texts,
                                   const Inputs &inputs, llvm::ArrayRef<Task> tasks,
                                   Plan<Result> plan, Findings<Result> &findings,
                                   ProgressLine &progress) {
  const unsigned numJobs = countJobs(options, tasks.size());
  std::vector<std::unique_ptr<Inputs>> others(numJobs - 1);
  return runJobs(tasks.size(), numJobs, [&](unsigned job, size_t item) {
    const Task &task = tasks[item];
    if (job > 0 && !others[job - 1])
      others[job - 1] = llvm::cantFail(Inputs::load(texts, options.settings));
    const Inputs &own = job == 0 ? inputs : *others[job - 1];
    const Listener<Result> listener = {[&](const std::string &next) { progress.show(next); },
                                       [&](Result result) {
                                         const std::string outcome = describeOutcome(result);
                                         findings.add(item, std::move(result));
                                         progress.keep(outcome);
                                       }};
    llvm::LogicalResult isPlanned = plan(own.getPlanners()[task.input], task.request, listener);
    findings.countDone();
    progress.countDone();
    return isPlanned;
  });
}

/// Plans all tasks, and calls `print(found, missing)` with what `plan` has found, by task. If a
/// signal ends the program before, `found` is incomplete, and `missing` says so.
template <typename Result>
static int planAndPrint(
    const Options &options, const InputTexts &texts, const Inputs &inputs,
    llvm::ArrayRef<Task> tasks, Plan<Result> plan,
    llvm::function_ref<int(std::vector<std::vector<Result>>, const std::string &missing)> print) {
  Findings<Result> findings(tasks.size());
  {
    ProgressLine progress(tasks.size());
    Interruption interruption([&] {
      progress.end();
      auto [found, numDone] = findings.get();
      const std::string missing =
          llvm::formatv("{0} of {1} combinations of model, mesh and policies lack points",
                        tasks.size() - numDone, tasks.size());
      if (llvm::any_of(found, [](const std::vector<Result> &ofTask) { return !ofTask.empty(); }))
        print(std::move(found), missing);
      fail("interrupted: " + missing);
    });
    if (failed(planAll(options, texts, inputs, tasks, plan, findings, progress)))
      return 1;
  }
  return print(findings.get().bySearch, "");
}

/// The findings for all tasks, in order.
template <typename Result> static std::vector<Result> join(std::vector<std::vector<Result>> found) {
  std::vector<Result> all;
  for (std::vector<Result> &ofTask : found)
    llvm::move(ofTask, std::back_inserter(all));
  return all;
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

  SweepHeader header = {options.settings.costs.device, costs.describeSources(),
                        costs.getMemoryBytes(), /*missing=*/""};
  if (!isSweep)
    return planAndPrint<Fit>(
        options, *texts, **inputs, tasks,
        [&](const PointPlanner &planner, const PointRequest &request,
            const Listener<Fit> &listener) { return findFit(planner, request, memory, listener); },
        [&](std::vector<std::vector<Fit>> found, const std::string &missing) {
          header.missing = missing;
          return printFits(options, join(std::move(found)), header, memory, printRemarks);
        });
  return planAndPrint<SweepPoint>(
      options, *texts, **inputs, tasks,
      [&](const PointPlanner &planner, const PointRequest &request,
          const Listener<SweepPoint> &listener) {
        return sweep(planner, request, options.sweep, listener);
      },
      [&](std::vector<std::vector<SweepPoint>> found, const std::string &missing) {
        header.missing = missing;
        for (std::vector<SweepPoint> &ofRequest : found)
          sortByCap(ofRequest);
        std::vector<SweepPoint> points = join(std::move(found));
        markPareto(points, options.sweep.globalBatch > 0);
        return printSweep(options, points, header, printRemarks);
      });
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
