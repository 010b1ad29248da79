//===- CommandLine.h - A training binary's flags ----------------*- C++ -*-===//
//
// The class that TrainOptions.cpp (parsing), CommandLineFlags.cpp (flags and help texts) and
// CommandLineChecks.cpp share.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMMANDLINE_H
#define FSDP_RUNTIME_COMMANDLINE_H

#include "train/TrainOptions.h"

#include <CLI/CLI.hpp>

namespace fsdp::rt {

/// The flags in CLI11: their help texts, which were given, and the words with which they were
/// given.
class CommandLine {
public:
  CommandLine(const PlanView &plan, const char *program);
  Result<TrainCommand> parse(int argc, const char *const *argv, const char *environmentThreads);

private:
  void addLaunchFlags();
  void addDeviceFlags();
  void addDataFlags();
  void addOptimizationFlags();
  void addOutputFlags();
  void addCheckpointFlags();
  Status check();
  Status checkDevice();
  Status checkFake();
  Status checkPaths();
  Status checkCheckpoints();
  Status checkTrace();
  Status checkClipping();
  Status checkEvaluation();
  Status checkLearningRate();
  Status checkLag();
  Status checkGuards();
  /// An error if one of the flags is given with a value that is not finite or is negative.
  Status checkNotNegative(std::initializer_list<const char *> flags);
  Status setThreads(const char *environmentThreads);
  Status checkRanks();
  bool given(const char *flag) { return app.get_option(flag)->count() != 0; }
  /// "--flag value" as typed, for messages.
  std::string typed(const char *flag) {
    const bool hasValue = app[flag]->get_items_expected_max() > 0;
    return hasValue ? flag + (" " + app[flag]->as<std::string>()) : flag;
  }

  const PlanView &plan;
  CLI::App app;
  TrainOptions options;
  std::string dataType, shape = "constant", kernels = "fastest", graph = "auto", pinMemory = "on";
  bool describe = false;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMMANDLINE_H
