//===- Evaluation.h - The loss of held-out data ------------------*- C++ -*-===//
//
// Runs the program's second plan, a forward over the same shards in the same arena, on data of its
// own. Every rank takes part.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_EVALUATION_H
#define FSDP_RUNTIME_EVALUATION_H

#include "data/BatchReader.h"
#include "executor/Executor.h"
#include "train/Agreement.h"
#include "train/StepLog.h"
#include "train/TrainOptions.h"
#include "watch/Watchdog.h"
#include "watch/WatchedCommunicator.h"

namespace fsdp::rt {

class Evaluation {
public:
  /// The references outlive the object; of `training` there is a next plan.
  Evaluation(const PlanView &training, const TrainOptions &options, Device &device,
             Communicator &communicator)
      : plan(*training.tables().next), options(options), device(device),
        communicator(communicator) {}

  /// Opens --eval-data and decides how many steps of it are run.
  Status openData();
  /// `arena` holds the state; the run's executor has been made.
  Status makeExecutor(std::byte *arena);
  /// Steps of one evaluation.
  int64_t numSteps() const { return steps; }

  /// The mean loss of all steps on all ranks, after `step` updates. No step of the run's executor
  /// is under way; it must resume() behind this. `told` hears of a rank that hangs.
  Outcome run(int64_t step, const Watchdog::Report &told, EvaluationRecord &record);

private:
  Status issueAll(double &lossSum);

  const PlanView plan;
  const TrainOptions &options;
  Device &device;
  Communicator &communicator;
  std::vector<InputShape> shapes;
  std::vector<IndexUse> indexUses;
  std::unique_ptr<BatchReader> reader;
  int64_t steps = 0;

  std::unique_ptr<StepProgress> progress;
  std::optional<WatchedCommunicator> watched;
  std::unique_ptr<Executor> executor;
  std::vector<std::span<std::byte>> inputs;
  std::vector<double> losses; // by rank: the mean of its steps
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_EVALUATION_H
