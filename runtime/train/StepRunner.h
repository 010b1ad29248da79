//===- StepRunner.h - A plan with its data and executor ------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_STEPRUNNER_H
#define FSDP_RUNTIME_STEPRUNNER_H

#include "data/BatchReader.h"
#include "executor/Executor.h"
#include "watch/WatchedCommunicator.h"

namespace fsdp::rt {

/// Runs one plan's steps on batches of its data, with its collectives watched. A run has one for
/// each plan of the program, over one arena.
class StepRunner {
public:
  /// The device and the communicator outlive the object.
  StepRunner(const PlanView &plan, Device &device, Communicator &communicator)
      : plan(plan), device(device), communicator(communicator) {}

  /// To be called first: finds the plan's inputs.
  Status findInputs();
  /// Samples of a step, over all ranks and microbatches.
  int64_t samplesPerStep() const;
  const std::vector<InputShape> &inputShapes() const { return shapes; }
  const PlanView &view() const { return plan; }
  /// Opens the data. The ranks and microbatches in `options` are filled in here.
  Status openData(DataOptions options);
  /// `arena` holds the state.
  Status makeExecutor(std::byte *arena, const ExecutorOptions &options);

  /// Runs a step on batch `batch` of the data, from 0: Executor::step().
  Result<std::optional<StepResults>> issue(int64_t batch, const StepInputs &step);

  const BatchReader &data() const { return *reader; }
  Executor &executor() const { return *made; }
  const StepProgress &progress() const { return *numbers; }
  /// The communicator, as the executor sees it.
  Communicator &watched() { return *watching; }

private:
  const PlanView plan;
  Device &device;
  Communicator &communicator;

  std::vector<InputShape> shapes; // of a microbatch
  std::vector<IndexUse> indexUses;
  std::unique_ptr<BatchReader> reader;
  std::unique_ptr<StepProgress> numbers;
  std::optional<WatchedCommunicator> watching;
  std::unique_ptr<Executor> made;
  std::vector<std::span<std::byte>> inputs; // of the next step
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_STEPRUNNER_H
