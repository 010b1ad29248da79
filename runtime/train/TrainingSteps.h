//===- TrainingSteps.h - The steps that train, by shape ----------*- C++ -*-===//
//
// A program has a training step for each shape of samples. All run over one arena, and a step of
// the run is one of them: ShapeOrder says which, on every rank by itself.
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
  double boundMilliseconds = 0; // of a step, in the compiler's cost model; 0: not known
};

/// Steps of the run are numbered from 1.
class TrainingSteps {
public:
  /// The arguments outlive the object. `first`: the program's first plan.
  TrainingSteps(const PlanView &first, Device &device, Communicator &communicator);
  ~TrainingSteps();

  /// First: what the plans' inputs are.
  Status findInputs();
  /// By shape: the inputs of a microbatch.
  std::vector<std::vector<InputShape>> inputShapes() const;
  /// Of the first shape, over all ranks and microbatches.
  int64_t samplesPerStep() const { return runners.front()->samplesPerStep(); }
  /// Opens --data, each file for the shape of its samples. `origin` of the order of samples of a
  /// run with one shape.
  Status openData(const TrainOptions &options, int64_t origin);
  /// Fails on all ranks if these read other data, and so would run steps of other shapes. All ranks
  /// call this.
  Outcome agreeOnData();
  /// Makes an executor for each shape, all over `arena`, which holds the state.
  Status makeExecutors(std::byte *arena, const ExecutorOptions &options);
  /// Watches the steps from now on, those of the shape that is issued; `told` hears of one that
  /// fails or hangs.
  void watch(const WatchdogOptions &options, const Watchdog::Report &told);
  /// What the watch has found.
  Status watched() const { return watchdog->status(); }
  void endWatch() { watchdog.reset(); }

  /// By shape.
  const std::vector<ShapeFigures> &shapes() const { return figures; }
  /// What a checkpoint says of several shapes; of one nothing.
  std::vector<Manifest::Shape> manifestShapes() const;
  int64_t stepsPerPass() const { return order->stepsPerPass(); }
  int64_t samplesInData() const;
  /// Of --data, by --eval-split.
  int64_t samplesHeldOut() const;
  /// For people: the file, or how many there are.
  std::string dataDescription() const;
  /// 0 if the data are no tokens, or samples have several lengths.
  int64_t tokensPerSample() const {
    return runners.size() == 1 ? runners.front()->data().tokensPerSample() : 0;
  }
  /// The shape of a step's samples, from 0.
  size_t shapeOf(int64_t step) { return placeOf(step).shape; }
  int64_t samplesOf(int64_t step) { return figures[shapeOf(step)].samplesPerStep; }
  /// Of the first `steps` steps.
  int64_t samplesUntil(int64_t steps);
  /// True if a step from `first` on, before `step`, has the shape of `step`, whose temporaries have
  /// been measured then.
  bool hasRun(int64_t first, int64_t step);
  const PlanView &planOf(int64_t step) { return plans[shapeOf(step)]; }
  Executor &executorOf(int64_t step) { return runners[shapeOf(step)]->executor(); }

  /// True if steps before `step` have another shape: none of them may be under way when it is
  /// issued.
  bool changesShape(int64_t step) { return shapeOf(step) != current; }
  /// StepRunner::issue().
  Result<std::optional<StepResults>> issue(const StepInputs &step);

  /// Of the step that was issued last; before the first one, of the first shape.
  Executor &executor() const { return runners[current]->executor(); }
  const StepProgress &progress() const { return runners[current]->progress(); }
  /// Executor::resume(), of that one.
  void resume() { executor().resume(); }
  /// Executor::hostArena(), of all shapes.
  std::byte *hostArena() const { return runners.front()->executor().hostArena(); }

private:
  ShapeOrder::Place placeOf(int64_t step);

  const std::vector<PlanView> plans; // by shape, as what follows
  Communicator &communicator;
  std::vector<std::unique_ptr<StepRunner>> runners;
  std::vector<ShapeFigures> figures;
  std::optional<ShapeOrder> order;
  bool overfit = false;
  size_t files = 0;
  size_t current = 0; // shape
  WatchdogOptions watchOptions;
  Watchdog::Report watchReport;
  std::unique_ptr<Watchdog> watchdog; // of the current shape; null: nothing is watched
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_TRAININGSTEPS_H
