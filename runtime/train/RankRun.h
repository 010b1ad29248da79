//===- RankRun.h - One rank's run, in parts ----------------------*- C++ -*-===//
//
// The class that OpenRun.cpp (opens files, makes the executor) and TrainRank.cpp (the loop over the
// steps) share.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_RANKRUN_H
#define FSDP_RUNTIME_RANKRUN_H

#include "checkpoint/Weights.h"
#include "train/AveragedWeights.h"
#include "train/CheckpointSaver.h"
#include "train/Checkpoints.h"
#include "train/Console.h"
#include "train/Evaluation.h"
#include "train/EventFile.h"
#include "train/FindNan.h"
#include "train/LossScale.h"
#include "train/OutlierGuard.h"
#include "train/StepTrace.h"
#include "train/TrainingSteps.h"

#include <algorithm>
#include <chrono>
#include <set>

namespace fsdp::rt {

/// The data that ranks exchange after each step.
struct StepExchange {
  double loss, partialNorm;
  uint32_t stop; // 1: this rank received a signal
  CheckpointSaver::State saving;
  uint32_t nonFinite; // 1: StepResults::nonFinite
};

/// Figures of a step over all ranks.
struct StepFigures {
  double loss = 0; // the mean, summed in rank order
  double gradientNorm = 0;
  bool areGradientsFinite = true;
};

class RankRun {
public:
  RankRun(const PlanView &plan, const TrainOptions &options, const char *backend, Device &device,
          Communicator &communicator)
      : plan(plan), options(options), backend(backend), device(device), communicator(communicator),
        isFirst(communicator.rank() == 0), training(plan, device, communicator) {
    if (plan.scalesLoss())
      lossScale.emplace(plan.tables().loss_scale);
  }

  Outcome run();

private:
  Outcome openCheckpoints();
  Outcome openSaver();
  Status openFiles();
  Status openWeights();
  Status openEvaluation();
  Status checkOutputs();
  /// Opens the data for `training`, and finds where in them the run begins.
  Status openTrainingData(const Manifest *resumed);
  Status chooseSchedule();
  Status chooseGroupRates();
  Status chooseTracedSteps();
  bool isTraced(int64_t step) const { return std::ranges::binary_search(tracedSteps, step); }
  Status makeExecutor();
  Outcome train();
  Outcome loop();
  /// Waits for all steps that have been issued.
  Outcome drain();
  /// Evaluates on --eval-data, unless the current parameters have been evaluated already.
  Outcome evaluate();
  Outcome evaluate(EvaluationRecord &record);
  /// The average has been set by an update.
  bool isAveraged() const { return average && issued > skippedSteps; }
  /// Writes weights to a file; `what` they are, for people.
  Outcome save(const char *what, const std::string &path);
  Outcome saveAverage();
  bool savesAtEnd() const;
  Outcome saveCheckpoint();
  /// Waits for the checkpoint in progress.
  Outcome finishCheckpoint();
  /// Prints and logs a completed checkpoint.
  Status tellSaved();
  /// Issues step `step`. Returns the results that arrived meanwhile, of an earlier step if they
  /// lag.
  Result<std::optional<StepResults>> issue(int64_t step);
  /// Exchanges a step's results with the other ranks, and prints and logs them. A signal stops the
  /// run unless the last step has been issued.
  Outcome finishStep(const StepResults &own);
  /// Writes --failure-dump, once.
  void writeDump(const std::string &message, const std::string &dump);
  void tellGraph();
  void tellLostMarks();
  void noteNonFinite(const StepRecord &record);
  /// After a step: notes an update that was left out, and follows with the loss scale.
  Status updateLossScale(const StepFigures &figuresOf);
  /// Ends a step with `outcome`. If all ranks know the error, waits for the checkpoint in progress.
  Outcome endAt(Outcome outcome);
  Outcome exchange(const StepResults &own);
  /// Computes the figures from the exchanged data.
  StepFigures figuresOfStep() const;
  /// For --skip-outliers: whether the step with these results may update.
  Result<bool> allowsUpdates(const StepResults &own);

  using Clock = std::chrono::steady_clock;

  const PlanView &plan;
  TrainOptions options; // including those of the checkpoint, in a resumed run
  const char *backend;
  Device &device;
  Communicator &communicator;
  bool isFirst;

  std::optional<Checkpoints> checkpoints;
  std::optional<CheckpointSaver> saver;
  std::vector<std::string> notes; // differences from the checkpoint's run
  std::string origin;             // of the state: "weights from FILE", for people
  std::optional<WeightsFiles> weights;
  StepLog log;
  EventFile events;
  RunFigures figures;
  LearningRateSchedule schedule;
  std::vector<LearningRateSchedule> groupSchedules; // by optimizer group
  std::vector<double> groupLearningRates;           // of the current step, by optimizer group

  std::byte *arena = nullptr;
  TrainingSteps training;
  std::optional<Evaluation> evaluation;   // null: no evaluation
  std::optional<AveragedWeights> average; // null: nothing is evaluated or saved of it
  std::vector<StepExchange> exchanged;  // by rank
  std::vector<double> losses;           // by rank
  std::optional<OutlierGuard> guard;
  std::optional<LossScale> lossScale; // null: the loss is not scaled
  GuardWindow guardWindow;        // of the checkpoint's run
  int64_t skippedSteps = 0;       // without an update, including those before the checkpoint
  std::string skipped;            // why the step that is issued has no update; "": it has one
  std::optional<Console> console; // on rank 0
  std::optional<StepTrace> trace; // on rank 0
  int64_t evaluatedStep = -1;     // after which the last evaluation was
  std::vector<int64_t> tracedSteps; // by rank 0, ascending
  Clock::time_point lastResults;  // arrival of the last results, or begin of the first step
  int64_t issued = 0;             // steps, including those before the checkpoint
  int64_t samplesRead = 0;        // by the finished steps
  int64_t savedStep = -1;         // of the last save to --checkpoint-dir
  std::vector<CheckpointSaver::State> savingStates; // by rank
  bool stopped = false;
  std::set<size_t> graphTold; // shapes
  bool marksTold = false, nonFiniteTold = false;
  std::atomic<bool> dumped{false};
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_RANKRUN_H
