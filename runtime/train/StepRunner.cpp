//===- StepRunner.cpp - A plan with its data and executor -----------------===//

#include "train/StepRunner.h"

using namespace fsdp::rt;

Status StepRunner::findInputs() {
  Result<std::vector<InputShape>> checked = planInputs(plan);
  if (!checked.ok())
    return checked.status();
  shapes = std::move(*checked);
  indexUses = findIndexUses(plan);
  return {};
}

int64_t StepRunner::samplesPerStep() const {
  return shapes[0].sizes[0] * communicator.size() * plan.tables().num_microbatches;
}

Status StepRunner::openData(DataOptions options) {
  options.rank = communicator.rank();
  options.worldSize = communicator.size();
  options.microbatches = plan.tables().num_microbatches;
  Result<std::unique_ptr<BatchReader>> opened = fsdp::rt::openData(options, shapes);
  if (opened.ok())
    reader = std::move(*opened);
  return opened.status();
}

Status StepRunner::makeExecutor(std::byte *arena, const ExecutorOptions &options) {
  Result<std::unique_ptr<StepProgress>> created = StepProgress::create(plan, device);
  if (!created.ok())
    return created.status();
  numbers = std::move(*created);
  watching.emplace(communicator, plan, *numbers);
  auto executor = Executor::create(plan.tables(), device, *watching, arena, options);
  if (!executor.ok())
    return executor.status();
  made = std::move(*executor);
  numbers->followCompute(made->currentEntry());
  inputs.resize(plan.tables().num_inputs);
  return {};
}

Result<std::optional<StepResults>> StepRunner::issue(int64_t batch, const StepInputs &step) {
  numbers->beginStep(static_cast<uint64_t>(step.step));
  for (unsigned i = 0; i < inputs.size(); ++i)
    inputs[i] = made->input(i);
  if (Status status = fillStep(*reader, batch, shapes.size(), inputs); !status.ok())
    return status;
  if (Status status = checkIndices(indexUses, shapes, inputs, *reader, batch); !status.ok())
    return status;
  return made->step(step);
}
