//===- fsdp-explain.cpp - Explains a schedule -----------------------------===//

#include "../CostFlags.h"
#include "../FatalErrors.h"
#include "../SizeFlag.h"
#include "../Version.h"
#include "fsdp/CommandLine/UnknownFlag.h"
#include "fsdp/Explain/DecisionLog.h"
#include "fsdp/Explain/ExplainModule.h"
#include "fsdp/Explain/ModuleFile.h"
#include "fsdp/Explain/Page.h"
#include "fsdp/Explain/Sensitivity.h"
#include "fsdp/Explain/Trace.h"
#include "fsdp/Files/SameFile.h"
#include "fsdp/IR/OutputFile.h"
#include "llvm/Support/raw_ostream.h"

#include "passes/VerifyPhase.h"

#include <CLI/CLI.hpp>

using namespace fsdp;
using namespace fsdp::explain;

namespace {

struct Options {
  std::string input = "-", group, trace, html, json, decisionLog;
  cost::CostOptions costs;
  int64_t memoryCapBytes = 0;
  bool isSensitivityAsked = false;
};

} // namespace

static int fail(const llvm::Twine &message) {
  llvm::errs() << "fsdp-explain: error: " << message << '\n';
  return 1;
}
static int fail(llvm::Error error) { return fail(llvm::toString(std::move(error))); }

static std::string listGroups(const schedule::Problem &problem) {
  std::string names;
  for (const schedule::Group &group : problem.groups)
    names += (names.empty() ? "" : ", ") + group.name;
  return names;
}

static int logDecisions(mlir::ModuleOp module, const std::string &path) {
  mlir::FailureOr<std::string> log = makeDecisionLog(module);
  if (failed(log))
    return 1;
  llvm::Error error = printFile(path, [&](llvm::raw_ostream &os) { os << *log; });
  return error ? fail(std::move(error)) : 0;
}

static int run(const Options &options) {
  if (std::optional<std::string> clash = findClash({{"INPUT", options.input},
                                                    {"--profile", options.costs.profile},
                                                    {"--network", options.costs.network}},
                                                   {{"--trace", options.trace},
                                                    {"--html", options.html},
                                                    {"--json", options.json},
                                                    {"--log-decisions", options.decisionLog}}))
    return fail(*clash);
  for (auto [flag, path] : {std::pair("--trace", &options.trace), {"--html", &options.html}})
    if (*path == "-" && options.isSensitivityAsked)
      return fail(llvm::Twine("--what-if is printed, but ") + flag + " - takes standard output");
  llvm::Expected<std::unique_ptr<cost::CostModel>> costs = cost::CostModel::create(options.costs);
  if (!costs)
    return fail(costs.takeError());
  llvm::Expected<std::unique_ptr<ModuleFile>> file = ModuleFile::read(options.input);
  if (!file)
    return fail(file.takeError());
  if (failed(verifyPhase((*file)->get())))
    return 1;
  if (!options.decisionLog.empty())
    return logDecisions((*file)->get(), options.decisionLog);
  ExplainOptions explain;
  int64_t capBytes = options.memoryCapBytes > 0 ? options.memoryCapBytes : (*costs)->getFreeBytes();
  if (capBytes > 0)
    explain.memoryCapBytes = capBytes;
  mlir::FailureOr<ExplainedModule> module = explainModule((*file)->get(), **costs, explain);
  if (failed(module))
    return 1;
  const schedule::Problem &problem = module->problem;
  if (!options.group.empty() &&
      llvm::none_of(problem.groups, [&](const auto &group) { return group.name == options.group; }))
    return fail("--group: there is no group '" + options.group + "', only " + listGroups(problem));

  std::vector<WhatIf> changes;
  if (options.isSensitivityAsked) {
    cost::CostOptions fasterHost = options.costs;
    fasterHost.hostCopyFactor = 0.5;
    llvm::Expected<std::unique_ptr<cost::CostModel>> faster = cost::CostModel::create(fasterHost);
    if (!faster)
      return fail(faster.takeError());
    changes =
        findSensitivity(problem, module->plan, findProblemOfHostCopies((*file)->get(), **faster));
  }
  if (!options.trace.empty())
    if (llvm::Error error =
            printFile(options.trace, [&](llvm::raw_ostream &os) { writeTrace(module->view, os); }))
      return fail(std::move(error));
  if (!options.html.empty())
    if (llvm::Error error = printFile(
            options.html, [&](llvm::raw_ostream &os) { writePage(module->getPlan(), os); }))
      return fail(std::move(error));
  if (!options.json.empty())
    if (llvm::Error error = printFile(options.json, [&](llvm::raw_ostream &os) {
          writeJson(module->getPlan(), changes, os);
        }))
      return fail(std::move(error));
  if (options.trace == "-" || options.html == "-" || options.json == "-")
    return 0;
  llvm::Error error = printFile("-", [&](llvm::raw_ostream &os) {
    if (options.group.empty()) {
      printStep(module->getPlan(), os);
      os << '\n';
    }
    printGroups(module->getPlan(), options.group, os);
    if (options.isSensitivityAsked)
      printSensitivity(changes, module->view.makespanNs, os);
  });
  return error ? fail(std::move(error)) : 0;
}

int main(int argc, char **argv) {
  fsdp::endOnFatalErrors("fsdp-explain");
  CLI::App app("Simulates a scheduled training step and explains its schedule: when each group is "
               "gathered, kept and reduced, what prevents an earlier start, and what it costs. "
               "Defaults are in parentheses.",
               "fsdp-explain");
  reportUnknownFlags(app);
  app.set_version_flag("--version", getVersion("fsdp-explain"));
  Options options;
  app.add_option("INPUT", options.input,
                 "Scheduled or planned module, text or bytecode; - is standard input");
  addCostFlags(app, options.costs);
  addSizeFlag(
      app, "--memory-cap", options.memoryCapBytes,
      "Memory cap from which headroom is computed: 80000000, 70GiB, 80GB (the device's memory "
      "without what driver and libraries use)");
  app.add_option("--group", options.group, "Print only this group, with the decisions on it");
  app.add_flag(
      "--what-if", options.isSensitivityAsked,
      "Print the predicted step time with another network, device or host, and with more memory");
  app.add_option("--trace", options.trace,
                 "Write a trace for ui.perfetto.dev here (JSON); - is standard output");
  app.add_option("--html", options.html,
                 "Write a page (HTML) with timeline and memory here; - is standard output");
  app.add_option("--json", options.json,
                 "Write the report on all groups here (JSON); - is standard output");
  CLI::Option *log =
      app.add_option("--log-decisions", options.decisionLog,
                     "Write the decisions on each group here, with their reasons, and the order of "
                     "events, instead of all other output; - is standard output");
  CLI11_PARSE(app, argc, argv);
  // The decision log needs no simulation, so options of the simulation would have no effect.
  if (*log)
    for (const CLI::Option *other : app.get_options())
      if (*other && other != log && other->get_name() != "INPUT")
        return fail(llvm::createStringError("--log-decisions takes no other option, but " +
                                            other->get_name() + " is given"));
  return run(options);
}
