//===- fsdp-plan.cpp - Predicts a step on other meshes --------------------===//

#include "../CostFlags.h"
#include "../FatalErrors.h"
#include "../FusionFlag.h"
#include "../SizeFlag.h"
#include "../TransportFlag.h"
#include "../Version.h"
#include "Fits.h"
#include "Reports.h"
#include "fsdp/CommandLine/UnknownFlag.h"
#include "fsdp/Config/ShardingConfig.h"
#include "fsdp/Explain/ModuleFile.h"
#include "fsdp/Explain/Quantities.h"
#include "fsdp/Files/SameFile.h"
#include "fsdp/IR/OutputFile.h"
#include "passes/VerifyPhase.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"

#include <CLI/CLI.hpp>

#include <functional>
#include <map>

using namespace fsdp;
using namespace fsdp::plan_tool;

namespace {

struct Options {
  std::vector<std::string> inputs, caps, recompute = {"cheap"};
  std::string mesh = "dp=8..16384", offload = "none", activations = "none", json, csv, html;
  int64_t maxBucketBytes = 0; // 0: no limit
  int64_t fitsBytes = 0;      // 0: a sweep
  int64_t reservedBytes = -1; // less than 0: the cost model's
  bool triesReplicas = false;
  cost::CostOptions costs;
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
static llvm::Error parseMeshes(llvm::StringRef mesh, SweepOptions &options) {
  int64_t replicas = 1;
  auto addMesh = [&](int64_t shards) { options.meshes.push_back({shards, replicas}); };
  auto wrong = [&](const llvm::Twine &why) {
    return llvm::createStringError("--mesh: '" + mesh + "' " + why);
  };
  auto [axis, ranks] = mesh.split('=');
  if (ranks.contains('=')) {
    auto [number, sharded] = ranks.split(',');
    options.replicateAxis = axis.str();
    if (number.getAsInteger(10, replicas) || replicas < 1 || replicas > (1 << 20))
      return wrong("has '" + number + "' replicas; expected a number from 1 to 1048576");
    std::tie(axis, ranks) = sharded.split('=');
  }
  if (axis.empty() || ranks.empty() || ranks.contains('='))
    return wrong("is no mesh; expected AXIS=RANKS, AXIS=8,64,512 or AXIS=8..16384, or one of these "
                 "behind replicate=R,");
  options.axis = axis.str();
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
  for (MeshSize size : options.meshes)
    if (std::optional<std::string> problem = checkRanks({size.replicas, size.shards}))
      return wrong(*problem);
  return llvm::Error::success();
}

/// Adds, for each mesh, the meshes of as many ranks with 2, 4, ... replicas of at least 2 shards.
static llvm::Error addReplicas(SweepOptions &options) {
  if (!options.replicateAxis.empty())
    return llvm::createStringError("--hsdp tries numbers of replicas, but --mesh says one already");
  if (options.axis == "replicate")
    return llvm::createStringError("--hsdp has an axis 'replicate'; name that of --mesh otherwise");
  options.replicateAxis = "replicate";
  std::vector<MeshSize> meshes;
  for (MeshSize whole : options.meshes)
    for (MeshSize size = whole; size.shards >= 2; size.shards /= 2, size.replicas *= 2) {
      meshes.push_back(size);
      if (size.shards % 2 != 0)
        break;
    }
  options.meshes = std::move(meshes);
  return llvm::Error::success();
}

/// A row's name: the file's name without folder, or its path if another file has that name.
static std::string getModelName(const Options &options, const std::string &path) {
  llvm::StringRef stem = llvm::sys::path::stem(path);
  auto hasStem = [&](const std::string &other) { return llvm::sys::path::stem(other) == stem; };
  return llvm::count_if(options.inputs, hasStem) > 1 ? path : stem.str();
}

/// The options of --fits. main() has refused several policies of recomputation.
static FitOptions getFit(const Options &options) {
  return {options.fitsBytes,
          options.sweep.reservedBytes,
          *symbolizeRecomputePolicy(options.recompute.front()),
          kOffloads.at(options.offload),
          kOffloads.at(options.activations),
          options.costs};
}

/// Shows progress on a terminal: one line, which each search overwrites.
static void showProgress(SweepOptions &options) {
  if (llvm::sys::Process::StandardErrIsDisplayed())
    options.progress = [](const SweepPoint &next, size_t done, size_t all) {
      llvm::errs() << "\r\033[Kfsdp-plan: " << next.model << " on " << next.ranks
                   << " ranks, recompute " << next.recompute << ": " << done << " of " << all
                   << " done";
    };
}

static int run(Options &options) {
  if (llvm::Error error = parseMeshes(options.mesh, options.sweep))
    return fail(std::move(error));
  if (options.triesReplicas)
    if (llvm::Error error = addReplicas(options.sweep))
      return fail(std::move(error));
  for (const std::string &text : options.caps) {
    llvm::Expected<int64_t> bytes = parseSizeBytes(text, "--memory-cap");
    if (!bytes)
      return fail(bytes.takeError());
    if (*bytes <= 0)
      return fail("--memory-cap: '" + text + "' leaves no memory");
    options.sweep.capBytes.push_back(*bytes);
  }
  llvm::sort(options.sweep.capBytes);
  if (options.maxBucketBytes > 0)
    options.sweep.maxBucketBytes = options.maxBucketBytes;
  for (const std::string &name : options.recompute)
    options.sweep.recompute.emplace_back(name, *symbolizeRecomputePolicy(name));
  options.sweep.offload = kOffloads.at(options.offload);
  options.sweep.activations = kOffloads.at(options.activations);
  std::vector<NamedPath> read = {{"--config", options.sweep.config},
                                 {"--profile", options.costs.profile},
                                 {"--network", options.costs.network}};
  for (const std::string &path : options.inputs)
    read.push_back({"INPUT", path});
  if (std::optional<std::string> clash = findClash(
          read, {{"--json", options.json}, {"--csv", options.csv}, {"--html", options.html}}))
    return fail(*clash);
  llvm::Expected<std::unique_ptr<cost::CostModel>> costs = cost::CostModel::create(options.costs);
  if (!costs)
    return fail(costs.takeError());

  options.sweep.reservedBytes =
      options.reservedBytes >= 0 ? options.reservedBytes : (*costs)->getReservedBytes();
  if (options.fitsBytes > 0 && options.fitsBytes <= options.sweep.reservedBytes)
    return fail("--fits: of " + explain::formatBytes(options.fitsBytes) + " are " +
                explain::formatBytes(options.sweep.reservedBytes) +
                " reserved for the driver and libraries (--reserve)");

  std::vector<SweepPoint> points;
  std::vector<Fit> fits;
  auto take = [](auto &all, auto found) {
    if (succeeded(found))
      llvm::move(*found, std::back_inserter(all));
    return llvm::LogicalResult(found);
  };
  showProgress(options.sweep);
  std::vector<std::unique_ptr<explain::ModuleFile>> files; // the cost model refers to these
  for (const std::string &path : options.inputs) {
    llvm::Expected<std::unique_ptr<explain::ModuleFile>> file = explain::ModuleFile::read(path);
    if (!file)
      return fail(file.takeError());
    mlir::ModuleOp module = files.emplace_back(std::move(*file))->get();
    std::string model = getModelName(options, path);
    if (failed(verifyPhase(module)) ||
        failed(options.fitsBytes > 0
                   ? take(fits, findFits(module, model, **costs, options.sweep, getFit(options)))
                   : take(points, sweep(module, model, **costs, options.sweep))))
      return 1;
  }
  if (options.sweep.progress && options.fitsBytes == 0)
    llvm::errs() << "\r\033[K";
  if (options.fitsBytes > 0) {
    if (llvm::Error error =
            printFile("-", [&](llvm::raw_ostream &os) { printFits(fits, options.fitsBytes, os); }))
      return fail(std::move(error));
    return 0;
  }

  SweepHeader header = {options.costs.device, (*costs)->describeSources(),
                        (*costs)->getMemoryBytes()};
  using Writer = std::function<void(llvm::raw_ostream &)>;
  std::pair<std::string, Writer> outputs[] = {
      {options.json, [&](llvm::raw_ostream &os) { writeJson(points, header, os); }},
      {options.csv, [&](llvm::raw_ostream &os) { writeCsv(points, os); }},
      {options.html, [&](llvm::raw_ostream &os) { writePlanPage(points, header, os); }}};
  bool isPrinted = true;
  for (auto &[path, write] : outputs) {
    isPrinted &= path != "-";
    if (!path.empty())
      if (llvm::Error error = printFile(path, write))
        return fail(std::move(error));
  }
  if (isPrinted)
    if (llvm::Error error = printFile("-", [&](llvm::raw_ostream &os) { printTable(points, os); }))
      return fail(std::move(error));
  return 0;
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
  CLI::Option *syncs =
      app.add_option("--gradient-sync", options.sweep.gradientSync,
                     "Microbatches after which gradients are reduced, to try: each, last (each)")
          ->delimiter(',')
          ->check(CLI::IsMember({"each", "last"}));
  CLI::Option *caps =
      app.add_option("--memory-cap", options.caps,
                     "Caps to try: 40GiB,80GiB (from the least that fits to the device's memory)")
          ->delimiter(',');
  addCostFlags(app, options.costs);
  app.add_option("--config", options.sweep.config, "YAML file with groups, in FSDP2's terms")
      ->check(CLI::ExistingFile);
  CLI::Option *recompute = app.add_option("--recompute", options.recompute,
                                          "Policies of recomputation to try: none, cheap, "
                                          "selected, full, as --recompute of fsdpc")
                               ->delimiter(',')
                               ->check(CLI::IsMember({"none", "cheap", "selected", "full"}))
                               ->capture_default_str();
  CLI::Option *offload = app.add_option("--offload-optimizer", options.offload,
                                        "Groups whose optimizer state is on the host: none; all; "
                                        "auto: all where the step does not fit otherwise")
                             ->check(CLI::IsMember(kOffloads))
                             ->capture_default_str();
  app.add_option("--offload-activations", options.activations,
                 "Blocks whose activations wait for the backward on the host: none; all; auto: all "
                 "where the step does not fit otherwise, with --fits those for which this is "
                 "faster than recomputation")
      ->check(CLI::IsMember(kOffloads))
      ->capture_default_str();
  addTransportFlag(app, options.sweep.transport);
  addFusionFlag(app, options.sweep.fusion,
                "Elementwise operators that become generated kernels, as --fusion of fsdpc: off, "
                "exact, fast, or auto: fast for CUDA, exact for CPUs");
  CLI::Option *budget =
      app.add_option(
             "--budget", options.sweep.simulationBudget,
             "Number of simulations of a search; if its plan takes over 1 % longer than the "
             "bound, a second search of three times as many follows (1000; 3000 for --fits)")
          ->check(CLI::PositiveNumber);
  addSizeFlag(app, "--max-bucket-size", options.maxBucketBytes,
              "Upper limit on the bytes of one launch of several collectives, as 1GiB (no limit)");
  CLI::Option *outputs[] = {
      app.add_option("--json", options.json, "Write all points here (JSON); - is standard output"),
      app.add_option("--csv", options.csv, "Write all points here (CSV); - is standard output"),
      app.add_option("--html", options.html, "Write a page with plots here; - is standard output")};
  CLI::Option *fits =
      addSizeFlag(app, "--fits", options.fitsBytes,
                  "Instead of a sweep: tell whether the step that fsdpc compiles fits in this much "
                  "memory, as 80GiB, and what the memory is used for. Recomputes and puts "
                  "optimizer state on the host as needed, unless a flag says otherwise")
          ->excludes(caps);
  for (CLI::Option *output : outputs)
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
    if (recompute->count() == 0)
      options.recompute = {"auto"};
    if (offload->count() == 0)
      options.offload = "auto";
  }
  if (syncs->count() > 0 &&
      llvm::all_of(options.sweep.microbatches, [](int64_t number) { return number == 1; }))
    return fail("--gradient-sync is of several --microbatches, but there is one");
  if (budget->count() == 0)
    options.sweep.simulationBudget = fits->count() > 0 ? 3000 : 1000;
  return run(options);
}
