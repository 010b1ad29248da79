//===- RankRun.h - One rank's run, in parts ----------------------*- C++ -*-===//
//
// What OpenRun.cpp, which opens files and makes the executor, shares with the loop over the steps.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_RANKRUN_H
#define FSDP_RUNTIME_RANKRUN_H

#include "checkpoint/Weights.h"
#include "train/CheckpointSaver.h"
#include "train/Checkpoints.h"
#include "train/Console.h"
#include "train/Evaluation.h"
#include "train/EventFile.h"
#include "train/FindNan.h"
#include "train/OutlierGuard.h"
#include "train/StepTrace.h"
#include "train/TrainingSteps.h"

#include <chrono>
#include <set>

namespace fsdp::rt {

/// What the ranks tell each other after each step.
struct StepExchange {
  double loss, partialNorm;
  uint32_t stop; // 1: this rank received a signal
  CheckpointSaver::State saving;
  uint32_t nonFinite; // 1: StepResults::nonFinite
};

/// What the ranks together say of a step.
struct StepFigures {
  double loss = 0; // the mean, summed in rank order
  double gradientNorm = 0;
};

class RankRun {
public:
  RankRun(const PlanView &plan, const TrainOptions &options, const char *backend, Device &device,
          Communicator &communicator)
      : plan(plan), options(options), backend(backend), device(device), communicator(communicator),
        isFirst(communicator.rank() == 0), training(plan, device, communicator) {}

  Outcome run();

private:
  Outcome openCheckpoints();
  Outcome openSaver();
  Status openFiles();
  Status openWeights();
  Status openEvaluation();
  Status checkOutputs();
  /// What `training` does with the data, and where in them the run begins.
  Status openTrainingData(const Manifest *resumed);
  Status chooseSchedule();
  Status chooseGroupRates();
  Status chooseTracedStep();
  Status makeExecutor();
  Outcome train();
  Outcome loop();
  /// Waits for all steps that have been issued.
  Outcome drain();
  /// --eval-data, unless these parameters have been evaluated.
  Outcome evaluate();
  bool savesAtEnd() const;
  Outcome saveCheckpoint();
  /// Waits for the checkpoint that is under way.
  Outcome finishCheckpoint();
  /// Tells of a checkpoint that has become complete.
  Status tellSaved();
  /// Issues step `step`; the results that came meanwhile, of an earlier one if they lag.
  Result<std::optional<StepResults>> issue(int64_t step);
  /// Tells the ranks and the user what a step was. A signal stops the run unless the last step has
  /// been issued.
  Outcome finishStep(const StepResults &own);
  /// Writes --failure-dump, once.
  void writeDump(const std::string &message, const std::string &dump);
  void tellGraph();
  void tellLostMarks();
  void noteNonFinite(const StepRecord &record);
  /// What a step's end has come to; an error of which all ranks know waits for the checkpoint that
  /// is under way.
  Outcome endAt(Outcome outcome);
  Outcome exchange(const StepResults &own);
  /// Of what was exchanged.
  StepFigures figuresOfStep() const;
  /// --skip-outliers: whether the step whose results these are is to update anything.
  Result<bool> allowsUpdates(const StepResults &own);

  using Clock = std::chrono::steady_clock;

  const PlanView &plan;
  TrainOptions options; // those of the checkpoint, too, when the run goes on from one
  const char *backend;
  Device &device;
  Communicator &communicator;
  bool isFirst;

  std::optional<Checkpoints> checkpoints;
  std::optional<CheckpointSaver> saver;
  std::vector<std::string> notes; // about what differs from the checkpoint's run
  std::string origin;             // of the state: "weights from FILE", for people
  std::optional<WeightsFiles> weights;
  StepLog log;
  EventFile events;
  RunFigures figures;
  LearningRateSchedule schedule;
  std::vector<LearningRateSchedule> groupSchedules; // by optimizer group
  std::vector<double> groupLearningRates;           // of the step that is issued, likewise

  std::byte *arena = nullptr;
  TrainingSteps training;
  std::optional<Evaluation> evaluation; // null: none is asked for
  std::vector<StepExchange> exchanged;  // by rank
  std::vector<double> losses;           // by rank
  std::optional<OutlierGuard> guard;
  GuardWindow guardWindow;        // of the checkpoint's run
  int64_t skippedSteps = 0;       // that had no update, with those before a checkpoint
  std::string skipped;            // why the step that is issued has no update; "": it has one
  std::optional<Console> console; // on rank 0
  std::optional<StepTrace> trace; // on rank 0
  int64_t evaluatedStep = -1;     // behind which the last evaluation was
  int64_t tracedStep = 0;         // 0: none
  Clock::time_point lastResults;  // when they came, or the first step began
  int64_t issued = 0;             // steps, with those before a checkpoint
  int64_t samplesRead = 0;        // of the steps that have finished
  int64_t savedStep = -1;         // of the last save to --checkpoint-dir
  std::vector<CheckpointSaver::State> savingStates; // by rank
  bool stopped = false;
  std::set<size_t> graphTold; // shapes
  bool marksTold = false, nonFiniteTold = false;
  std::atomic<bool> dumped{false};
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_RANKRUN_H
