//===- Evaluation.h - The loss of held-out data ------------------*- C++ -*-===//
//
// Runs the program's evaluation plans, one for each shape of samples, on evaluation data. They are
// forwards over the same shards in the same arena. Every rank takes part.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_EVALUATION_H
#define FSDP_RUNTIME_EVALUATION_H

#include "comm/Agreement.h"
#include "train/StepLog.h"
#include "train/StepRunner.h"
#include "train/TrainOptions.h"
#include "watch/Watchdog.h"

#include <memory>

namespace fsdp::rt {

class Evaluation {
public:
  /// The references outlive the object. `plans` are evaluation plans.
  Evaluation(std::vector<PlanView> plans, const TrainOptions &options, Device &device,
             Communicator &communicator);

  /// Opens --eval-data, or --data for the samples that --eval-split holds out, each file for the
  /// shape of its samples, and decides how many steps are run. `trained`: for each shape, the
  /// inputs of the training steps. --eval-split needs exactly one evaluation for each of these
  /// shapes: samples of other lengths would overlap training samples.
  Status openData(const std::vector<std::vector<InputShape>> &trained);
  /// `arena` holds the state; the run's executor has been made.
  Status makeExecutors(std::byte *arena, std::byte *hostArena);

  /// Computes the mean loss of all steps on all ranks, after `step` updates. No step of the run's
  /// executor may be in flight, and it must resume() afterwards. `told` is called for a step that
  /// fails or hangs. A signal to any rank ends the evaluation on all of them after the current
  /// step: then isStopped(), and `record` has no loss.
  Outcome run(int64_t step, const Watchdog::Report &told, EvaluationRecord &record);
  bool isStopped() const { return stopped; }

private:
  struct Shape {
    std::unique_ptr<StepRunner> runner;
    int64_t steps = 0; // of one evaluation
  };

  /// The files of each shape.
  Result<std::vector<std::vector<std::string>>>
  findFiles(const std::vector<std::vector<InputShape>> &trained) const;
  Status openData(Shape &shape, std::vector<std::string> paths);
  Status run(Shape &shape, const Watchdog::Report &told, double &lossSum);
  Status issueAll(Shape &shape, double &lossSum);
  /// Sets `stopped` if any rank has received a signal.
  Status exchangeSignals();

  const std::vector<PlanView> plans; // by shape
  const TrainOptions &options;
  Communicator &communicator;
  std::vector<Shape> shapes;
  std::vector<double> losses;    // for each rank, the mean over its steps
  std::vector<uint32_t> signals; // for each rank, 1: it has received a signal
  bool stopped = false;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_EVALUATION_H
