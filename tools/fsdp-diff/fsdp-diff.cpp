//===- fsdp-diff.cpp - Compares two schedules -----------------------------===//

#include "../CostFlags.h"
#include "../FatalErrors.h"
#include "../SizeFlag.h"
#include "../Version.h"
#include "fsdp/CommandLine/UnknownFlag.h"
#include "fsdp/Explain/DiffPage.h"
#include "fsdp/Explain/ExplainModule.h"
#include "fsdp/Explain/MeasuredStep.h"
#include "fsdp/Explain/ModuleFile.h"
#include "fsdp/Explain/ScheduleDiff.h"
#include "fsdp/Files/SameFile.h"
#include "fsdp/IR/OutputFile.h"
#include "passes/VerifyPhase.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <CLI/CLI.hpp>

#include <limits>

using namespace fsdp;
using namespace fsdp::explain;

namespace {

/// The exit codes of diff(1).
enum ExitCode : int { Equal = 0, Different = 1, Failed = 2 };

struct Options {
  std::string left, right;
  std::string trace; // of a run; takes the place of the right module
  std::string json, html;
  int64_t memoryCapBytes = 0; // for the page; 0: the device's memory
  cost::CostOptions costs;
  bool all = false;
};

} // namespace

static int fail(llvm::Error error) {
  llvm::errs() << "fsdp-diff: error: " << llvm::toString(std::move(error)) << '\n';
  return Failed;
}

/// Names of the two columns: the files' names; their paths if the names are equal; "left" and
/// "right" if the paths are equal, too.
static std::pair<std::string, std::string> getNames(const Options &options) {
  std::string left = llvm::sys::path::stem(options.left).str();
  std::string right = llvm::sys::path::stem(options.right).str();
  if (left != right)
    return {left, right};
  if (options.left != options.right)
    return {options.left, options.right};
  return {"left", "right"};
}

/// Sets the cap that the page shows. If the schedule exceeds the cap, its reasons stay those
/// without a cap, since reasons that name free memory hold only for a schedule that fits.
static void setCap(ExplainedModule &module, int64_t capBytes) {
  module.view.memoryCapBytes = capBytes;
  if (module.view.getPeakBytes() > capBytes)
    return;
  module.problem.memoryCapBytes = capBytes;
  module.explanation = explain::explain(module.problem, module.plan, module.view);
}

static llvm::Expected<ExplainedModule> simulate(const std::string &path,
                                                const cost::CostModel &costs) {
  llvm::Expected<std::unique_ptr<ModuleFile>> file = ModuleFile::read(path);
  if (!file)
    return file.takeError();
  // The comparison needs no lower bound.
  ExplainOptions explain;
  explain.quickRatio = std::numeric_limits<double>::infinity();
  if (succeeded(verifyPhase((*file)->get())))
    if (mlir::FailureOr<ExplainedModule> module = explainModule((*file)->get(), costs, explain);
        succeeded(module))
      return std::move(*module);
  return llvm::createStringError("'" + path + "' is refused (see above)");
}

/// Writes to `path`, unless it is empty, what `write` has written without an error.
template <typename Write> static llvm::Error printChecked(const std::string &path, Write write) {
  if (path.empty())
    return llvm::Error::success();
  std::string text;
  llvm::raw_string_ostream os(text);
  if (llvm::Error error = write(os))
    return error;
  return printFile(path, [&](llvm::raw_ostream &out) { out << text; });
}

static int compareWithTrace(const Options &options, const ExplainedModule &module) {
  llvm::Expected<MeasuredRun> measured = readMeasuredRun(options.trace);
  if (!measured)
    return fail(measured.takeError());
  const bool isTextShown = options.html != "-" && options.json != "-";
  if (llvm::Error error = printChecked(options.json, [&](llvm::raw_ostream &os) {
        return writeMeasuredDiff(module.problem, module.view, *measured, os);
      }))
    return fail(std::move(error));
  if (llvm::Error error = printChecked(options.html, [&](llvm::raw_ostream &os) {
        return writeMeasuredPage(module.getPlan(), *measured, os);
      }))
    return fail(std::move(error));
  if (llvm::Error error = printChecked(isTextShown ? "-" : "", [&](llvm::raw_ostream &os) {
        return printMeasuredDiff(module.problem, module.view, *measured, options.all, os);
      }))
    return fail(std::move(error));
  return Equal;
}

static int run(const Options &options) {
  if (options.trace.empty() == options.right.empty())
    return fail(llvm::createStringError(
        options.trace.empty() ? "RIGHT or --trace is required"
                              : "RIGHT is '" + options.right + "' and --trace is '" +
                                    options.trace + "': one of them can be compared with LEFT"));
  if (std::optional<std::string> clash =
          findClash({{"LEFT", options.left},
                     {"RIGHT", options.right},
                     {"--profile", options.costs.profile},
                     {"--trace", options.trace},
                     {"--network", options.costs.network}},
                    {{"--json", options.json}, {"--html", options.html}}))
    return fail(llvm::createStringError(*clash));
  llvm::Expected<std::unique_ptr<cost::CostModel>> costs = cost::CostModel::create(options.costs);
  if (!costs)
    return fail(costs.takeError());
  std::vector<ExplainedModule> modules;
  for (const std::string *path : {&options.left, &options.right}) {
    if (path->empty())
      continue;
    llvm::Expected<ExplainedModule> module = simulate(*path, **costs);
    if (!module)
      return fail(module.takeError());
    if (int64_t capBytes =
            options.memoryCapBytes ? options.memoryCapBytes : (*costs)->getFreeBytes();
        !options.html.empty() && capBytes > 0)
      setCap(*module, capBytes);
    modules.push_back(std::move(*module));
  }
  if (!options.trace.empty())
    return compareWithTrace(options, modules.front());
  auto [leftName, rightName] = getNames(options);
  const ExplainedModule &left = modules[0], &right = modules[1];
  const ScheduleSide leftSide = {leftName, left.problem, left.plan, left.view},
                     rightSide = {rightName, right.problem, right.plan, right.view};
  std::string text;
  llvm::raw_string_ostream stream(text);
  bool differ = printDiff(leftSide, rightSide, options.all, stream);
  if (!options.json.empty())
    if (llvm::Error error =
            printFile(options.json, [&](auto &os) { writeDiff(leftSide, rightSide, os); }))
      return fail(std::move(error));
  if (!options.html.empty())
    if (llvm::Error error = printFile(options.html, [&](auto &os) {
          writeDiffPage({leftName, left.getPlan()}, {rightName, right.getPlan()}, os);
        }))
      return fail(std::move(error));
  if (options.json != "-" && options.html != "-")
    if (llvm::Error error = printFile("-", [&](auto &os) { os << text; }))
      return fail(std::move(error));
  return differ ? Different : Equal;
}

int main(int argc, char **argv) {
  fsdp::endOnFatalErrors("fsdp-diff");
  CLI::App app("Compares two scheduled training steps: times, peaks, bytes, and each gather, "
               "reshard and reduction that is placed differently. With --trace, compares a "
               "predicted step with a measured one. Defaults are in parentheses. Exit status: 0 "
               "equal or measured, 1 different, 2 error.",
               "fsdp-diff");
  reportUnknownFlags(app);
  app.set_version_flag("--version", getVersion("fsdp-diff"));
  Options options;
  app.add_option("LEFT", options.left, "Scheduled or planned module")->required();
  app.add_option("RIGHT", options.right, "Scheduled or planned module");
  app.add_option("--trace", options.trace,
                 "In place of RIGHT: the timeline that the training binary of LEFT measured "
                 "(its --trace); prints the errors of the predictions");
  addCostFlags(app, options.costs);
  app.add_flag("--all", options.all,
               "Print equal events too, or all rows of the comparison with a trace");
  app.add_option("--json", options.json,
                 "Write figures and events of both schedules here, or figures, blocks and "
                 "collectives of the comparison with a trace (JSON); - is standard output");
  CLI::Option *html = app.add_option("--html", options.html,
                                     "Write a page (HTML) with both timelines, memory and all "
                                     "differences here; - is standard output");
  addSizeFlag(app, "--memory-cap", options.memoryCapBytes,
              "The memory cap that the page shows: 80000000, 70GiB, 80GB (the device's memory "
              "without what driver and libraries use)")
      ->needs(html);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? Equal : Failed;
  }
  return run(options);
}
