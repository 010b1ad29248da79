//===- TrainingSteps.h - Training steps by shape of samples --- -*- C++ -*-===//
//
// A program has a training plan for each shape of samples. All plans run over one arena, and each
// step of the run is a step of one plan. ShapeOrder chooses it, on every rank by itself.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_TRAININGSTEPS_H
#define FSDP_RUNTIME_TRAININGSTEPS_H

#include "checkpoint/Manifest.h"
#include "comm/Agreement.h"
#include "train/StepRunner.h"
#include "train/TrainOptions.h"
#include "watch/Watchdog.h"

namespace fsdp::rt {

/// The batches of one shape.
struct ShapeFigures {
  std::string inputs;         // of a microbatch, for people
  int64_t samplesPerStep = 0; // over all ranks
  int64_t samplesInData = 0;
  double modelFlops = 0;        // of a step on one rank
  // Lower bound of a step's time, in the compiler's cost model; 0: not known.
  double boundMilliseconds = 0;
};

/// Steps of the run are numbered from 1.
class TrainingSteps {
public:
  /// The arguments outlive the object. `first`: the program's first plan.
  TrainingSteps(const PlanView &first, Device &device, Communicator &communicator);
  ~TrainingSteps();

  /// To be called first: finds the plans' inputs.
  Status findInputs();
  /// For each shape, the inputs of a microbatch.
  std::vector<std::vector<InputShape>> inputShapes() const;
  /// Samples of a step of the first shape, over all ranks and microbatches.
  int64_t samplesPerStep() const { return runners.front()->samplesPerStep(); }
  /// Opens --data, each file for the shape of its samples. `origin`: of the order of samples, in a
  /// run with one shape.
  Status openData(const TrainOptions &options, int64_t origin);
  /// Fails on all ranks if they read different data, and so would run steps of different shapes.
  /// All ranks must call this.
  Outcome agreeOnData();
  /// Makes an executor for each shape, all over `arena`, which holds the state.
  Status makeExecutors(std::byte *arena, const ExecutorOptions &options);
  /// Watches the steps of all shapes from now on; `told` is called for a step that fails or hangs.
  void watch(const WatchdogOptions &options, const Watchdog::Report &told);
  /// The watchdog's finding.
  Status watched() const { return watchdog->status(); }
  void endWatch() { watchdog.reset(); }

  /// By shape.
  const std::vector<ShapeFigures> &shapes() const { return figures; }
  /// The shapes for a checkpoint's manifest; empty for a single shape.
  std::vector<Manifest::Shape> manifestShapes() const;
  int64_t stepsPerPass() const { return order->stepsPerPass(); }
  int64_t samplesInData() const;
  /// Samples of --data that --eval-split holds out.
  int64_t samplesHeldOut() const;
  /// For people: the file's name, or the number of files.
  std::string dataDescription() const;
  /// 0 if the data are not tokens, or if samples have several lengths.
  int64_t tokensPerSample() const {
    return runners.size() == 1 ? runners.front()->data().tokensPerSample() : 0;
  }
  /// The shape of a step's samples, from 0.
  size_t shapeOf(int64_t step) { return placeOf(step).shape; }
  int64_t samplesOf(int64_t step) { return figures[shapeOf(step)].samplesPerStep; }
  /// Samples of the first `steps` steps.
  int64_t samplesUntil(int64_t steps);
  /// True if a step from `first` on, before `step`, has the shape of `step`, so that the shape's
  /// temporaries have been measured.
  bool hasRun(int64_t first, int64_t step);
  const PlanView &planOf(int64_t step) { return plans[shapeOf(step)]; }
  Executor &executorOf(int64_t step) { return runners[shapeOf(step)]->executor(); }

  /// True if the last issued step has another shape than `step`: then no step may be in flight when
  /// `step` is issued.
  bool changesShape(int64_t step) { return shapeOf(step) != current; }
  /// StepRunner::issue().
  Result<std::optional<StepResults>> issue(const StepInputs &step);

  /// The executor of the last issued step; before the first step, of the first shape.
  Executor &executor() const { return runners[current]->executor(); }
  const StepProgress &progress() const { return runners[current]->progress(); }
  /// Executor::resume() of that executor.
  void resume() { executor().resume(); }
  /// Executor::hostArena(), shared by all shapes.
  std::byte *hostArena() const { return runners.front()->executor().hostArena(); }

private:
  ShapeOrder::Place placeOf(int64_t step);

  const std::vector<PlanView> plans; // by shape, as the members below
  Communicator &communicator;
  std::vector<std::unique_ptr<StepRunner>> runners;
  std::vector<ShapeFigures> figures;
  std::optional<ShapeOrder> order;
  bool overfit = false;
  size_t files = 0;
  size_t current = 0; // shape
  WatchdogOptions watchOptions;
  Watchdog::Report watchReport;
  std::unique_ptr<Watchdog> watchdog; // of the current shape; null: no watch
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_TRAININGSTEPS_H
