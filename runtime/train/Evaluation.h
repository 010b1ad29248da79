//===- Evaluation.h - The loss of held-out data ------------------*- C++ -*-===//
//
// Runs the program's last plan, a forward over the same shards in the same arena, on data of its
// own. Every rank takes part.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_EVALUATION_H
#define FSDP_RUNTIME_EVALUATION_H

#include "train/Agreement.h"
#include "train/StepLog.h"
#include "train/StepRunner.h"
#include "train/TrainOptions.h"
#include "watch/Watchdog.h"

namespace fsdp::rt {

class Evaluation {
public:
  /// The references outlive the object. `plan` evaluates.
  Evaluation(const PlanView &plan, const TrainOptions &options, Device &device,
             Communicator &communicator)
      : plan(plan), options(options), communicator(communicator),
        runner(plan, device, communicator) {}

  /// Opens --eval-data, or --data for what --eval-split holds out, and decides how many steps of it
  /// are run.
  Status openData();
  /// `arena` holds the state; the run's executor has been made.
  Status makeExecutor(std::byte *arena);

  /// The mean loss of all steps on all ranks, after `step` updates. No step of the run's executor
  /// is under way; it must resume() behind this. `told` hears of a step that fails or hangs.
  Outcome run(int64_t step, const Watchdog::Report &told, EvaluationRecord &record);

private:
  Status issueAll(double &lossSum);

  const PlanView plan;
  const TrainOptions &options;
  Communicator &communicator;
  StepRunner runner;
  int64_t steps = 0;          // of one evaluation
  std::vector<double> losses; // by rank: the mean of its steps
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_EVALUATION_H
