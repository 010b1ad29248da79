//===- TrainOptions.cpp - The command line of a training binary -----------===//

#include "data/TokenHeader.h"
#include "fsdp/CommandLine/UnknownFlag.h"
#include "train/CommandLine.h"
#include "watch/PlanLanes.h"

#include <algorithm>

using namespace fsdp::rt;

/// Breaks a help text into lines; CLI11 indents them.
static std::string wrapped(const std::string &text) {
  constexpr size_t kColumns = 68;
  std::string result;
  size_t begin = 0;
  while (text.size() - begin > kColumns) {
    size_t space = text.rfind(' ', begin + kColumns);
    result += text.substr(begin, space - begin) + '\n';
    begin = space + 1;
  }
  return result + text.substr(begin);
}

CommandLine::CommandLine(const PlanView &plan, const char *program)
    : plan(plan), app("Trains " + std::string(plan.string(plan.tables().model)) + " on " +
                          std::to_string(plan.tables().world_size) +
                          (plan.tables().world_size == 1 ? " rank." : " ranks."),
                      program) {
  options.learningRate = plan.tables().optimizer.lr;
  app.set_version_flag("--version",
                       "fsdpc training binary, plan ABI " + std::to_string(FSDP_PLAN_ABI_VERSION));
  app.add_flag("--describe", describe,
               "Print what this binary holds (model, mesh, groups, collectives, memory) and exit");
  addLaunchFlags();
  addDeviceFlags();
  addDataFlags();
  addOptimizationFlags();
  addOutputFlags();
  addCheckpointFlags();
  for (CLI::Option *option : app.get_options())
    option->description(wrapped(option->get_description()));
}

Result<TrainCommand> CommandLine::parse(int argc, const char *const *argv,
                                        const char *environmentThreads) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    return TrainCommand{{}, app.help()};
  } catch (const CLI::CallForVersion &version) {
    return TrainCommand{{}, std::string(version.what()) + "\n"};
  } catch (const CLI::ExtrasError &) {
    return Status::error(fsdp::describeUnknownFlag(app).value_or("unexpected argument '" +
                                                                 app.remaining().front() + "'"));
  } catch (const CLI::ParseError &error) {
    for (const CLI::Option *option : app.get_options())
      if (option->get_expected_max() == 1 && option->count() > 1)
        return Status::error(option->get_name() + " is given " + std::to_string(option->count()) +
                             " times");
    return Status::error(error.what());
  }
  if (describe) {
    for (const CLI::Option *option : app.parse_order())
      if (option->get_name() != "--describe")
        return Status::error("--describe prints and exits: " + option->get_name() +
                             " has no effect beside it");
    return TrainCommand{{}, describePlan(plan.tables())};
  }
  if (!dataType.empty())
    options.dataType = tokenTypeNamed(dataType);
  options.schedule = *shapeNamed(shape);
  options.kernels = kernels == "torch" ? OperatorKernels::Torch : OperatorKernels::Fastest;
  options.graph = graph == "off"                                     ? GraphMode::Off
                  : graph == "auto" && options.ranks.value_or(1) > 1 ? GraphMode::OffInThreads
                                                                     : GraphMode::Automatic;
  options.pinMemory = pinMemory == "on";
  for (const CLI::Option *option : app.parse_order())
    options.given.insert(option->get_name());
  options.evalSplitSeed = options.seed;
  if (given("--resume") && !options.resume)
    options.resume = "";
  if (Status status = check(); !status.ok())
    return status;
  if (Status status = setThreads(environmentThreads); !status.ok())
    return status;
  return TrainCommand{options, std::nullopt};
}

Result<TrainCommand> fsdp::rt::parseTrainOptions(int argc, const char *const *argv,
                                                 const PlanView &plan,
                                                 const char *environmentThreads) {
  return CommandLine(plan, argc > 0 ? argv[0] : "train").parse(argc, argv, environmentThreads);
}

WatchdogOptions fsdp::rt::watchdogOptions(const TrainOptions &options) {
  // Communicators that find a stall themselves report more about the peer, so the watchdog gives
  // them time to report first.
  constexpr std::chrono::milliseconds kGrace{1000};
  WatchdogOptions watch;
  watch.deadline =
      kGrace + std::chrono::milliseconds(static_cast<int64_t>(options.timeoutSeconds * 1000));
  return watch;
}

CommunicatorOptions fsdp::rt::communicatorOptions(const TrainOptions &options,
                                                  const PlanView &plan) {
  auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(std::max<int64_t>(1, static_cast<int64_t>(seconds * 1000)));
  };
  CommunicatorOptions result;
  result.lanes = lanesOf(plan);
  result.deadline = milliseconds(options.timeoutSeconds);
  result.connectTimeout = milliseconds(options.connectTimeoutSeconds);
  return result;
}
