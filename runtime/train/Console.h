//===- Console.h - Progress on standard output ---------------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_CONSOLE_H
#define FSDP_RUNTIME_CONSOLE_H

#include "executor/Executor.h"
#include "plan/PlanView.h"
#include "train/CheckpointSaver.h"
#include "train/ProgressBar.h"
#include "train/StepLog.h"
#include "train/TrainOptions.h"
#include "train/TrainingSteps.h"

#include <chrono>

namespace fsdp::rt {

/// Figures of a run, printed before its first step.
struct RunFigures {
  int64_t steps = 0;
  std::vector<ShapeFigures> shapes; // of samples, at least one
  int64_t tokensPerSample = 0;      // 0: the data are not tokens
  int64_t samplesInData = 0;
  std::string data; // for people
};

/// Progress on standard output: a line for the first and the last step and at most one a second
/// between, or a bar on a terminal; then a summary. Silent with --quiet.
class Console {
public:
  Console(const TrainOptions &options, const PlanView &plan, const char *backend,
          const RunFigures &figures);

  /// `origin` of the state, and `notes` about it.
  void begin(const std::string &origin, std::span<const std::string> notes);
  /// Prints a line, for example about how the device runs the steps.
  void note(const std::string &text);
  /// A finished step. `last`: no further step follows.
  void step(const StepRecord &record, bool last);
  /// Prints why the update of a step is left out.
  void skipped(const std::string &outlier);
  void evaluation(const EvaluationRecord &record);
  /// After the last step; `interrupted`: stopped by a signal.
  void end(const ExecutorStatistics &statistics, bool interrupted);
  void saved(const char *what, const std::string &path);
  /// A complete checkpoint, and how long steps waited for it.
  void checkpoint(const SavedCheckpoint &saved);

private:
  using Clock = std::chrono::steady_clock;
  /// "12,345 tokens/s" for a number of samples per second.
  std::string rate(double samplesPerSecond) const;
  /// "320 samples, 40,960 tokens" for a number of samples.
  std::string amount(int64_t samples) const;
  /// Prints the arithmetic rate and the ratio to the lower bound for all steps but the first; these
  /// steps took `milliseconds` together.
  void tellWork(double milliseconds) const;

  const TrainOptions &options;
  const PlanView &plan;
  const char *backend;
  RunFigures figures;
  ProgressBar bar;
  Clock::time_point lastLine;
  int64_t stepsDone = 0, firstSamples = 0, samplesDone = 0;
  double firstMilliseconds = 0, totalMilliseconds = 0;
  double flopsOfOthers = 0, boundOfOthers = 0; // of all steps but the first: sums, and milliseconds
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CONSOLE_H
