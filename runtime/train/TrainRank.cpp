//===- TrainRank.cpp - One rank's run -------------------------------------===//

#include "train/TrainRank.h"

#include "checkpoint/Weights.h"
#include "comm/Watchdog.h"
#include "comm/WatchedCommunicator.h"
#include "data/BatchReader.h"
#include "executor/Executor.h"
#include "fsdp/Files/OutputFile.h"
#include "train/Console.h"
#include "train/StepTrace.h"
#include "train/StopSignals.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <unistd.h>

using namespace fsdp::rt;

namespace {

/// What the ranks tell each other after each step.
struct StepExchange {
  double loss, gradientSquareSum;
  int64_t stop; // 1: this rank received a signal
};

class RankRun {
public:
  RankRun(const PlanView &plan, const TrainOptions &options, const char *backend, Device &device,
          Communicator &communicator)
      : plan(plan), options(options), backend(backend), device(device), communicator(communicator),
        isFirst(communicator.rank() == 0) {}

  Outcome run();

private:
  Status openFiles();
  Status openWeights();
  Status checkOutputs();
  Status chooseTracedStep();
  Status makeExecutor();
  Outcome train();
  Outcome loop(const Watchdog &watchdog);
  /// Issues step `step`; the results that came meanwhile, of an earlier one if they lag.
  Result<std::optional<StepResults>> issue(int64_t step);
  /// Tells the ranks and the user what a step was. A signal stops the run unless the last step has
  /// been issued.
  Outcome finishStep(const StepResults &own, const Watchdog &watchdog);
  /// Writes --failure-dump, once.
  void writeDump(const std::string &message, const std::string &dump);
  void tellGraph();
  Outcome exchange(const StepResults &own);

  using Clock = std::chrono::steady_clock;

  const PlanView &plan;
  const TrainOptions &options;
  const char *backend;
  Device &device;
  Communicator &communicator;
  bool isFirst;

  std::unique_ptr<BatchReader> reader;
  std::vector<InputShape> shapes; // of the inputs
  std::vector<IndexUse> indexUses;
  std::optional<SafetensorsFile> weights;
  StepLog log;
  RunFigures figures;
  LearningRateSchedule schedule;

  std::byte *arena = nullptr;
  std::unique_ptr<StepProgress> progress;
  std::optional<WatchedCommunicator> watched; // the communicator, as the executor sees it
  std::unique_ptr<Executor> executor;
  std::vector<std::span<std::byte>> inputs; // of the step that is issued next
  std::vector<StepExchange> exchanged;      // by rank
  std::vector<double> losses;               // by rank
  std::optional<Console> console;           // on rank 0
  std::optional<StepTrace> trace;           // on rank 0
  int64_t tracedStep = 0;                   // 0: none
  Clock::time_point lastResults;            // when they came, or the first step began
  int64_t issued = 0;                       // steps
  bool stopped = false, graphTold = false;
  std::atomic<bool> dumped{false};
};

} // namespace

/// Where fsdpc leaves a model's weights: beside the binary.
static std::string weightsBesideBinary() {
  char path[4096];
  ssize_t length = ::readlink("/proc/self/exe", path, sizeof(path));
  return length <= 0 ? "" : std::string(path, static_cast<size_t>(length)) + ".safetensors";
}

Status RankRun::openWeights() {
  std::string path = options.init;
  if (path.empty()) {
    path = weightsBesideBinary();
    if (path.empty() || ::access(path.c_str(), F_OK) != 0)
      return Status::error("no initial weights: --init FILE.safetensors is not given, and there is "
                           "no '" +
                           path + "'");
  }
  Result<SafetensorsFile> file = SafetensorsFile::open(path);
  if (!file.ok())
    return file.status();
  weights = std::move(*file);
  return checkWeights(plan, *weights);
}

/// Output errors should show before the training, not after it.
Status RankRun::checkOutputs() {
  if (!isFirst)
    return {};
  if (!options.save.empty()) {
    size_t slash = options.save.rfind('/');
    std::string folder = slash == std::string::npos ? "." : options.save.substr(0, slash + 1);
    if (::access(folder.c_str(), W_OK) != 0)
      return Status::error("--save " + options.save + ": cannot write in '" + folder +
                           "': " + std::strerror(errno));
  }
  if (options.log.empty())
    return {};
  Result<StepLog> opened = StepLog::open(options.log);
  if (opened.ok())
    log = std::move(*opened);
  return opened.status();
}

Status RankRun::openFiles() {
  Result<std::vector<InputShape>> checked = planInputs(plan);
  if (!checked.ok())
    return checked.status();
  shapes = std::move(*checked);
  indexUses = findIndexUses(plan);
  DataOptions data{options.data,        options.dataType,    std::nullopt,
                   communicator.rank(), communicator.size(), plan.tables().num_microbatches};
  if (options.shuffle)
    data.shuffleSeed = options.seed;
  Result<std::unique_ptr<BatchReader>> opened = openData(data, shapes);
  if (!opened.ok())
    return opened.status();
  reader = std::move(*opened);

  figures.samplesInData = reader->samples();
  figures.tokensPerSample = reader->tokensPerSample();
  figures.samplesPerStep =
      shapes[0].sizes[0] * communicator.size() * plan.tables().num_microbatches;
  figures.steps = options.steps.value_or(figures.samplesInData / figures.samplesPerStep);
  if (options.warmupSteps >= figures.steps && options.warmupSteps != 0)
    return Status::error("--warmup-steps " + std::to_string(options.warmupSteps) +
                         " leaves nothing of the " + std::to_string(figures.steps) +
                         " steps (--steps)");
  schedule = {options.schedule, options.learningRate, options.minimumLearningRate,
              options.warmupSteps, figures.steps};
  if (Status status = chooseTracedStep(); !status.ok())
    return status;
  if (Status status = openWeights(); !status.ok())
    return status;
  return checkOutputs();
}

Status RankRun::chooseTracedStep() {
  if (options.trace.empty())
    return {};
  tracedStep = options.traceStep.value_or(std::min<int64_t>(3, figures.steps));
  if (tracedStep < 2)
    return Status::error("--trace " + options.trace +
                         ": the first step also measures temporaries, and the run has no other");
  if (tracedStep > figures.steps)
    return Status::error("--trace-step " + std::to_string(tracedStep) + " of a run of " +
                         std::to_string(figures.steps) + " steps");
  return {};
}

Status RankRun::makeExecutor() {
  std::unique_ptr<Stream> stream = device.makeStream("fsdp-weights");
  if (Status status = loadWeights(plan, communicator.rank(), *stream, arena, *weights);
      !status.ok())
    return status;
  Result<std::unique_ptr<StepProgress>> numbers = StepProgress::create(plan, device);
  if (!numbers.ok())
    return numbers.status();
  progress = std::move(*numbers);
  watched.emplace(communicator, plan, *progress);
  ExecutorOptions execution{.kernels = options.kernels,
                            .graph = options.graph,
                            .clipGradNorm = options.clipGradNorm,
                            .lossLag = options.lossLag.value_or(options.device == "cpu" ? 0 : 1)};
  auto created = Executor::create(plan.tables(), device, *watched, arena, execution);
  if (!created.ok())
    return created.status();
  executor = std::move(*created);
  progress->followCompute(executor->currentEntry());
  inputs.resize(plan.tables().num_inputs);
  if (isFirst && tracedStep)
    trace.emplace(plan, device, options.device == "cpu");
  exchanged.resize(communicator.size());
  losses.resize(communicator.size());
  return {};
}

Outcome RankRun::run() {
  at::set_num_threads(static_cast<int>(options.threads));
  if (Outcome outcome = agreeOnOrder(communicator, plan); !outcome.status.ok())
    return outcome;
  if (Outcome outcome = agree(communicator, openFiles()); !outcome.status.ok())
    return outcome;
  Result<std::byte *> memory =
      communicator.makeArena(static_cast<size_t>(plan.tables().arena_bytes));
  if (!memory.ok())
    return {memory.status(), false};
  arena = *memory;
  if (Outcome outcome = agree(communicator, makeExecutor()); !outcome.status.ok())
    return outcome;
  if (isFirst) {
    console.emplace(options, plan, backend, figures);
    console->begin(weights->path());
  }
  weights.reset();

  if (Outcome outcome = train(); !outcome.status.ok())
    return outcome;
  if (console)
    console->end(executor->statistics(), stopped);
  if (options.save.empty())
    return {};
  std::unique_ptr<Stream> stream = device.makeStream("fsdp-weights");
  Outcome outcome =
      agree(communicator, saveWeights(plan, communicator, *stream, arena, options.save));
  if (outcome.status.ok() && console)
    console->saved(options.save);
  return outcome;
}

Result<std::optional<StepResults>> RankRun::issue(int64_t step) {
  progress->beginStep();
  for (unsigned i = 0; i < inputs.size(); ++i)
    inputs[i] = executor->input(i);
  if (Status status = fillStep(*reader, step - 1, shapes.size(), inputs); !status.ok())
    return status;
  if (Status status = checkIndices(indexUses, shapes, inputs, *reader, step - 1, options.data);
      !status.ok())
    return status;
  if (trace)
    executor->trace(step == tracedStep ? &*trace : nullptr);
  return executor->step({step, schedule.at(step), options.seed});
}

Outcome RankRun::exchange(const StepResults &own) {
  StepExchange mine{own.loss, own.gradientSquareSum, StopSignals::requested() ? 1 : 0};
  return {communicator.allGather(kControlLane, &mine, exchanged.data(), sizeof(mine)), false};
}

void RankRun::writeDump(const std::string &message, const std::string &dump) {
  if (options.failureDump.empty() || dumped.exchange(true))
    return;
  std::string path = options.failureDump + ".rank" + std::to_string(communicator.rank()) + ".txt";
  // The run has failed already: nobody is left to be told that this does too.
  std::string problem, text = message + "\n" + dump;
  if (std::optional<fsdp::OutputFile> file = fsdp::OutputFile::open(path, problem))
    if (!file->write(text.data(), text.size()))
      (void)file->commit();
}

Outcome RankRun::train() {
  // Communicators that find a stall themselves say more about the peer: theirs is the first word.
  constexpr std::chrono::milliseconds kGrace{1000};
  WatchdogOptions watch;
  watch.deadline =
      kGrace + std::chrono::milliseconds(static_cast<int64_t>(options.timeoutSeconds * 1000));
  Watchdog watchdog(
      *watched, *progress, watch,
      [this](const std::string &message, const std::string &dump) { writeDump(message, dump); });
  Outcome outcome = loop(watchdog);
  if (!outcome.status.ok())
    writeDump(outcome.status.message(), progress->dump());
  return outcome;
}

Outcome RankRun::finishStep(const StepResults &own, const Watchdog &watchdog) {
  if (Status status = watchdog.status(); !status.ok())
    return {status, false};
  if (Outcome outcome = exchange(own); !outcome.status.ok())
    return outcome;
  Clock::time_point now = Clock::now();
  double milliseconds = std::chrono::duration<double, std::milli>(now - lastResults).count();
  lastResults = now;

  double lossSum = 0, squareSum = 0;
  for (size_t rank = 0; rank < exchanged.size(); ++rank) {
    losses[rank] = exchanged[rank].loss;
    lossSum += exchanged[rank].loss;
    // Replicas hold the same shards.
    if (rank < plan.numShards())
      squareSum += exchanged[rank].gradientSquareSum;
    // A signal during the last step stops nothing.
    stopped |= exchanged[rank].stop != 0 && issued < figures.steps;
  }
  if (!console)
    return {};
  if (trace && own.step == tracedStep)
    if (Status status = writeTraceFile(*trace, tracedStep, options.trace); !status.ok())
      return {status, false};
  StepRecord record{own.step,
                    lossSum / static_cast<double>(losses.size()),
                    losses,
                    std::sqrt(squareSum),
                    schedule.at(own.step),
                    milliseconds,
                    static_cast<double>(figures.samplesPerStep) * 1000 / milliseconds,
                    std::chrono::duration<double, std::milli>(executor->issueTime()).count()};
  if (Status status = log.write(record); !status.ok())
    return {status, false};
  console->step(record, own.step == (stopped ? issued : figures.steps));
  return {};
}

/// Says once whether steps are graphs, when it is known.
void RankRun::tellGraph() {
  if (!console || graphTold || options.device == "cpu" ||
      executor->graphNote().starts_with("not yet"))
    return;
  graphTold = true;
  console->graph(executor->graphNote());
}

Outcome RankRun::loop(const Watchdog &watchdog) {
  lastResults = Clock::now();
  while (issued < figures.steps && !stopped) {
    Result<std::optional<StepResults>> results = issue(issued + 1);
    if (!results.ok())
      return {results.status(), false};
    ++issued;
    tellGraph();
    if (*results)
      if (Outcome outcome = finishStep(**results, watchdog); !outcome.status.ok())
        return outcome;
  }
  while (true) {
    Result<std::optional<StepResults>> results = executor->finish();
    if (!results.ok() || !*results)
      return {results.status(), false};
    if (Outcome outcome = finishStep(**results, watchdog); !outcome.status.ok())
      return outcome;
  }
}

Outcome fsdp::rt::trainRank(const PlanView &plan, const TrainOptions &options, const char *backend,
                            Device &device, Communicator &communicator) {
  Outcome outcome;
  {
    RankRun run(plan, options, backend, device, communicator);
    try {
      outcome = run.run();
    } catch (const std::exception &error) {
      outcome = {Status::error(error.what()), false};
    }
    // Before the executor is destroyed: its streams may be waiting for a peer.
    if (!outcome.status.ok() && !outcome.known)
      communicator.abort(abortReason(communicator.rank(), outcome.status.message()));
  }
  return outcome;
}
