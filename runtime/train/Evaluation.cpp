//===- Evaluation.cpp - The loss of held-out data --------------------------===//

#include "train/Evaluation.h"

#include "data/SampleFile.h"

#include <chrono>

using namespace fsdp::rt;

Status Evaluation::openData() {
  Result<std::vector<InputShape>> checked = planInputs(plan);
  if (!checked.ok())
    return checked.status();
  shapes = std::move(*checked);
  indexUses = findIndexUses(plan);
  Result<std::vector<std::string>> paths = findDataFiles(options.evalData, "--eval-data");
  if (!paths.ok())
    return paths.status();
  DataOptions data{.paths = std::move(*paths),
                   .tokenType = options.dataType,
                   .shuffleSeed = {},
                   .rank = communicator.rank(),
                   .worldSize = communicator.size()};
  Result<std::unique_ptr<BatchReader>> opened = fsdp::rt::openData(data, shapes);
  if (!opened.ok())
    return Status::error("--eval-data: " + opened.status().message());
  reader = std::move(*opened);
  const int64_t perStep = shapes[0].sizes[0] * communicator.size();
  const int64_t whole = reader->samples() / perStep;
  steps = options.evalSteps.value_or(whole);
  if (steps > whole)
    return Status::error("--eval-steps " + std::to_string(steps) + " of " +
                         std::to_string(perStep) + " samples each, but --eval-data has " +
                         std::to_string(reader->samples()));
  return {};
}

Status Evaluation::makeExecutor(std::byte *arena) {
  Result<std::unique_ptr<StepProgress>> numbers = StepProgress::create(plan, device);
  if (!numbers.ok())
    return numbers.status();
  progress = std::move(*numbers);
  watched.emplace(communicator, plan, *progress);
  auto created = Executor::create(plan.tables(), device, *watched, arena,
                                  {.kernels = options.kernels, .graph = options.graph});
  if (!created.ok())
    return Status::error("evaluation: " + created.status().message());
  executor = std::move(*created);
  progress->followCompute(executor->currentEntry());
  inputs.resize(plan.tables().num_inputs);
  losses.resize(communicator.size());
  return {};
}

Status Evaluation::issueAll(double &lossSum) {
  lossSum = 0;
  for (int64_t step = 0; step < steps; ++step) {
    progress->beginStep();
    for (unsigned i = 0; i < inputs.size(); ++i)
      inputs[i] = executor->input(i);
    if (Status status = fillStep(*reader, step, shapes.size(), inputs); !status.ok())
      return status;
    if (Status status = checkIndices(indexUses, shapes, inputs, *reader, step); !status.ok())
      return status;
    Result<std::optional<StepResults>> results =
        executor->step({.step = step + 1, .learningRate = 0, .seed = options.seed});
    if (!results.ok())
      return results.status();
    lossSum += (*results)->loss;
  }
  return {};
}

Outcome Evaluation::run(int64_t step, const Watchdog::Report &told, EvaluationRecord &record) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  executor->resume();
  double lossSum = 0;
  {
    Watchdog watchdog(*watched, *progress, watchdogOptions(options), told);
    if (Status status = issueAll(lossSum); !status.ok())
      return {status, false};
    if (Status status = watchdog.status(); !status.ok())
      return {status, false};
  }
  const double own = lossSum / static_cast<double>(steps);
  if (Status status = communicator.allGather(kControlLane, &own, losses.data(), sizeof(own));
      !status.ok())
    return {status, false};
  record.step = step;
  record.rankLosses = losses;
  record.loss = 0;
  for (double loss : losses)
    record.loss += loss;
  record.loss /= static_cast<double>(losses.size());
  record.samples = steps * shapes[0].sizes[0] * communicator.size();
  record.isOfTokens = reader->tokensPerSample() != 0;
  record.milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  return {};
}
