//===- Evaluation.cpp - The loss of held-out data --------------------------===//

#include "train/Evaluation.h"

#include <chrono>

using namespace fsdp::rt;

Status Evaluation::openData() {
  if (Status status = runner.findInputs(); !status.ok())
    return status;
  const bool splits = options.evalSplit != 0;
  const char *flag = splits ? "--data" : "--eval-data";
  Result<std::vector<std::string>> paths =
      findDataFiles(splits ? options.data : options.evalData, flag);
  if (!paths.ok())
    return Status::error("evaluation: " + paths.status().message());
  DataOptions data;
  data.paths = std::move(*paths);
  data.tokenType = options.dataType;
  data.heldOutFraction = options.evalSplit;
  data.heldOutSeed = options.evalSplitSeed;
  data.readHeldOut = splits;
  if (Status status = runner.openData(std::move(data)); !status.ok())
    return Status::error("evaluation: " + status.message());
  const int64_t perStep = runner.samplesPerStep(), whole = runner.data().samples() / perStep;
  steps = options.evalSteps.value_or(whole);
  if (steps > whole)
    return Status::error("--eval-steps " + std::to_string(steps) + " of " +
                         std::to_string(perStep) + " samples each, but " +
                         (splits ? "--eval-split holds out " : "--eval-data has ") +
                         std::to_string(runner.data().samples()));
  return {};
}

Status Evaluation::makeExecutor(std::byte *arena) {
  losses.resize(communicator.size());
  Status status = runner.makeExecutor(arena, {.kernels = options.kernels, .graph = options.graph});
  return status.ok() ? status : status.within("evaluation: ");
}

Status Evaluation::issueAll(double &lossSum) {
  for (int64_t step = 0; step < steps; ++step) {
    Result<std::optional<StepResults>> results =
        runner.issue(step, {.step = step + 1, .learningRate = 0, .seed = options.seed});
    if (!results.ok())
      return results.status();
    lossSum += (*results)->loss;
  }
  return {};
}

Outcome Evaluation::run(int64_t step, const Watchdog::Report &told, EvaluationRecord &record) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  runner.executor().resume();
  double lossSum = 0;
  {
    Watchdog watchdog(runner.watched(), runner.progress(), watchdogOptions(options), told);
    Status status = issueAll(lossSum);
    if (status.ok())
      status = watchdog.status();
    if (!status.ok()) {
      told(status.message(), runner.progress().dump());
      return {status, false};
    }
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
  record.samples = steps * runner.samplesPerStep();
  record.isOfTokens = runner.data().tokensPerSample() != 0;
  record.milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  return {};
}
