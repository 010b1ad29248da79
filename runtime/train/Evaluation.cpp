//===- Evaluation.cpp - The loss of held-out data --------------------------===//

#include "train/Evaluation.h"

#include "train/StopSignals.h"

#include <algorithm>
#include <chrono>

using namespace fsdp::rt;

Evaluation::Evaluation(std::vector<PlanView> evaluations, const TrainOptions &options,
                       Device &device, Communicator &communicator)
    : plans(std::move(evaluations)), options(options), communicator(communicator) {
  for (const PlanView &plan : plans)
    shapes.push_back({std::make_unique<StepRunner>(plan, device, communicator)});
}

using FilesByShape = std::vector<std::vector<std::string>>;

Result<FilesByShape>
Evaluation::findFiles(const std::vector<std::vector<InputShape>> &trained) const {
  std::vector<std::vector<InputShape>> evaluated;
  for (const Shape &shape : shapes)
    evaluated.push_back(shape.runner->inputShapes());
  const bool splits = options.evalSplit != 0;
  const char *flag = splits ? "--data" : "--eval-data";
  Result<std::vector<std::string>> paths =
      findDataFiles(splits ? options.data : options.evalData, flag);
  if (!paths.ok())
    return paths.status();
  if (!splits)
    return filesByShape(*paths, evaluated, flag);

  // Files belong to the shapes of the training steps; held-out samples belong to the evaluation of
  // the same shape.
  Result<FilesByShape> files = filesByShape(*paths, trained, flag);
  if (!files.ok())
    return files.status();
  auto find = [](const std::vector<std::vector<InputShape>> &all,
                 const std::vector<InputShape> &inputs) {
    return std::ranges::find_if(all,
                                [&](const auto &other) { return haveEqualSamples(inputs, other); });
  };
  const std::string asked = "--eval-split " + shortestNumber(options.evalSplit) + ": ";
  for (const auto &inputs : trained)
    if (find(evaluated, inputs) == evaluated.end())
      return Status::error(asked + "this binary trains on samples of " + describeInputs(inputs) +
                           ", but has no evaluation of such samples: give --eval-data FILE");
  FilesByShape chosen;
  for (const auto &inputs : evaluated) {
    auto shape = find(trained, inputs);
    if (shape == trained.end())
      return Status::error(asked + "this binary evaluates samples of " + describeInputs(inputs) +
                           ", but does not train on such samples: give --eval-data FILE");
    chosen.push_back((*files)[static_cast<size_t>(shape - trained.begin())]);
  }
  return chosen;
}

Status Evaluation::openData(const std::vector<std::vector<InputShape>> &trained) {
  for (Shape &shape : shapes)
    if (Status status = shape.runner->findInputs(); !status.ok())
      return status;
  Result<FilesByShape> files = findFiles(trained);
  if (!files.ok())
    return Status::error("evaluation: " + files.status().message());
  for (size_t i = 0; i < shapes.size(); ++i)
    if (Status status = openData(shapes[i], std::move((*files)[i])); !status.ok())
      return status;
  return {};
}

Status Evaluation::openData(Shape &shape, std::vector<std::string> paths) {
  StepRunner &runner = *shape.runner;
  DataOptions data;
  data.paths = std::move(paths);
  data.tokenType = options.dataType;
  data.heldOutFraction = options.evalSplit;
  data.heldOutSeed = options.evalSplitSeed;
  data.readHeldOut = options.evalSplit != 0;
  if (Status status = runner.openData(std::move(data)); !status.ok())
    return Status::error("evaluation: " + status.message());
  const int64_t perStep = runner.samplesPerStep(), whole = runner.data().samples() / perStep;
  shape.steps = options.evalSteps.value_or(whole);
  if (shape.steps > whole)
    return Status::error("--eval-steps " + std::to_string(shape.steps) + " of " +
                         std::to_string(perStep) + " samples each, but " +
                         (options.evalSplit != 0 ? "--eval-split holds out " : "--eval-data has ") +
                         std::to_string(runner.data().samples()) +
                         (shapes.size() == 1 ? "" : " of " + describeInputs(runner.inputShapes())));
  return {};
}

Status Evaluation::makeExecutors(std::byte *arena, std::byte *hostArena) {
  losses.resize(communicator.size());
  signals.resize(communicator.size());
  for (Shape &shape : shapes)
    if (Status status = shape.runner->makeExecutor(arena, {.kernels = options.kernels,
                                                           .graph = options.graph,
                                                           .hostArena = hostArena,
                                                           .pinHostArena = options.pinMemory});
        !status.ok())
      return status.within("evaluation: ");
  return {};
}

Status Evaluation::exchangeSignals() {
  const uint32_t own = StopSignals::requested() ? 1 : 0;
  Status status = communicator.allGather(kControlLane, &own, signals.data(), sizeof(own));
  stopped = status.ok() && std::ranges::count(signals, 0u) != std::ssize(signals);
  return status;
}

Status Evaluation::issueAll(Shape &shape, double &lossSum) {
  for (int64_t step = 0; step < shape.steps; ++step) {
    if (Status status = exchangeSignals(); !status.ok() || stopped)
      return status;
    Result<std::optional<StepResults>> results =
        shape.runner->issue(step, {.step = step + 1, .learningRate = 0, .seed = options.seed});
    if (!results.ok())
      return results.status();
    lossSum += (*results)->loss;
  }
  return {};
}

Status Evaluation::run(Shape &shape, const Watchdog::Report &told, double &lossSum) {
  StepRunner &runner = *shape.runner;
  runner.executor().resume();
  Watchdog watchdog(runner.watched(), runner.progress(), watchdogOptions(options), told);
  Status status = issueAll(shape, lossSum);
  if (status.ok())
    status = watchdog.status();
  if (!status.ok())
    told(status.message(), runner.progress().dump());
  return status;
}

Outcome Evaluation::run(int64_t step, const Watchdog::Report &told, EvaluationRecord &record) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  double lossSum = 0;
  int64_t steps = 0;
  record.samples = 0;
  record.isOfTokens = true;
  for (Shape &shape : shapes) {
    if (Status status = run(shape, told, lossSum); !status.ok() || stopped)
      return {status, false};
    steps += shape.steps;
    record.samples += shape.steps * shape.runner->samplesPerStep();
    record.isOfTokens &= shape.runner->data().tokensPerSample() != 0;
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
  record.milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  return {};
}
