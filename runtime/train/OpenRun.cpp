//===- OpenRun.cpp - Opens files and executor before the first step -------===//

#include "checkpoint/CheckpointFolder.h"
#include "fsdp/Files/SameFile.h"
#include "plan/ProgramPlans.h"
#include "train/LoadingBar.h"
#include "train/RankRun.h"
#include "train/ResumedOptions.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unistd.h>

using fsdp::NamedPath;
using namespace fsdp::rt;

/// The path at which fsdpc writes a model's weights: beside the binary.
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
  Result<WeightsFiles> file = WeightsFiles::open(path);
  if (!file.ok())
    return file.status();
  weights = std::move(*file);
  // --save and --save-ema may overwrite a file that is loaded: it is replaced only when the new
  // file is complete.
  std::vector<NamedPath> inputs, outputs = {{"--log-file", options.log},
                                            {"--trace", options.trace},
                                            {"--operator-report", options.operatorReport}};
  for (const std::string &own : weights->filePaths())
    inputs.push_back({"--init", own});
  if (path.ends_with(kWeightsIndexEnd))
    outputs.insert(outputs.end(), {{"--save", options.save}, {"--save-ema", options.saveAverage}});
  if (std::optional<std::string> clash = findClash(inputs, outputs))
    return Status::error(*clash);
  origin = "weights from " + path;
  return checkWeights(plan, *weights);
}

/// Checks the outputs, so that errors show before the training.
Status RankRun::checkOutputs() {
  if (!isFirst)
    return {};
  for (const NamedPath &file :
       {NamedPath{"--save", options.save}, {"--save-ema", options.saveAverage}}) {
    size_t slash = file.path.rfind('/');
    std::string folder = slash == std::string::npos ? "." : file.path.substr(0, slash + 1);
    if (!file.path.empty() && ::access(folder.c_str(), W_OK) != 0)
      return Status::error(file.flag + " " + file.path + ": cannot write in '" + folder +
                           "': " + std::strerror(errno));
  }
  if (!options.tensorboard.empty()) {
    Result<EventFile> opened = EventFile::open(options.tensorboard, issued + 1);
    if (!opened.ok())
      return opened.status();
    events = std::move(*opened);
  }
  if (options.log.empty())
    return {};
  Result<StepLog> opened = StepLog::open(options.log, /*append=*/issued > 0);
  if (opened.ok())
    log = std::move(*opened);
  return opened.status();
}

Outcome RankRun::openCheckpoints() {
  if (options.checkpointDir.empty() && !options.resume)
    return {};
  checkpoints.emplace(plan, options, device, communicator);
  if (Outcome outcome = checkpoints->open(); !outcome.status.ok())
    return outcome;
  const CheckpointReader *resumed = checkpoints->resumed();
  issued = checkpoints->step();
  if (!resumed) {
    if (options.resume)
      notes.push_back("no checkpoint in " + options.checkpointDir + ": the run begins anew");
    return {};
  }
  std::error_code ignored;
  if (std::filesystem::equivalent(resumed->path(),
                                  options.checkpointDir + "/" + checkpointName(issued), ignored))
    savedStep = issued;
  origin = "step " + std::to_string(issued) + " from " + resumed->path();
  return {};
}

Outcome RankRun::openSaver() {
  if (!options.saveEvery && !options.saveOnExit)
    return {};
  saver.emplace(plan, options, device, communicator);
  return agree(communicator, saver->prepare());
}

static std::string describeShapes(const std::vector<Manifest::Shape> &shapes) {
  if (shapes.empty())
    return "samples of one shape";
  std::string text;
  for (const Manifest::Shape &shape : shapes)
    text += (text.empty() ? "shapes of " : ", ") + std::to_string(shape.samplesPerStep) +
            " samples a step, " + std::to_string(shape.samplesInData) + " in the data";
  return text;
}

Status RankRun::openTrainingData(const Manifest *resumed) {
  if (Status status = training.findInputs(); !status.ok())
    return status;
  // The order of samples continues where the checkpoint's run stopped, for any batch size. With
  // several shapes it is a function of the step.
  const bool hasOne = training.shapes().size() == 1;
  const int64_t origin =
      hasOne && resumed ? resumed->samples - resumed->step * training.samplesPerStep() : 0;
  if (Status status = training.openData(options, origin); !status.ok())
    return status;
  samplesRead = resumed ? resumed->samples : training.samplesUntil(issued);
  figures.shapes = training.shapes();
  figures.data = training.dataDescription();
  figures.samplesInData = training.samplesInData();
  figures.tokensPerSample = training.tokensPerSample();
  if (!resumed)
    return {};
  if (const auto own = training.manifestShapes(); own != resumed->shapes)
    notes.push_back(
        "the order of samples is not that of the checkpoint's run: " + describeShapes(own) +
        ", the checkpoint's run had " + describeShapes(resumed->shapes));
  else if (resumed->samplesInData != figures.samplesInData)
    notes.push_back("--data: " + std::to_string(figures.samplesInData) +
                    " samples, the checkpoint's run had " + std::to_string(resumed->samplesInData));
  return {};
}

Status RankRun::chooseSchedule() {
  figures.steps = options.steps.value_or(training.stepsPerPass());
  if (issued > figures.steps)
    return Status::error("--steps " + std::to_string(figures.steps) +
                         ", but the checkpoint is of step " + std::to_string(issued));
  if (options.warmupSteps >= figures.steps && options.warmupSteps != 0)
    return Status::error("--warmup-steps " + std::to_string(options.warmupSteps) +
                         " leaves nothing of the " + std::to_string(figures.steps) +
                         " steps (--steps)");
  if (options.schedule == LearningRateShape::WarmupStableDecay && !options.decaySteps)
    options.decaySteps = std::max<int64_t>(1, figures.steps / 5);
  if (options.decaySteps.value_or(0) > figures.steps - options.warmupSteps)
    return Status::error("--warmup-steps " + std::to_string(options.warmupSteps) +
                         " and --decay-steps " + std::to_string(*options.decaySteps) +
                         " are more than the " + std::to_string(figures.steps) +
                         " steps (--steps)");
  schedule = {options.schedule,    options.learningRate, options.minimumLearningRate,
              options.warmupSteps, figures.steps,        options.decaySteps.value_or(0)};
  return chooseGroupRates();
}

Status RankRun::openEvaluation() {
  std::vector<PlanView> evaluates = evaluationPlans(plan.tables());
  if (!evaluates.empty() && (!options.evalData.empty() || options.evalSplit != 0)) {
    evaluation.emplace(std::move(evaluates), options, device, communicator);
    if (Status status = evaluation->openData(training.inputShapes()); !status.ok())
      return status;
  } else if (options.evalEvery || options.evalSteps || options.evalAverage)
    return Status::error("--eval-every, --eval-steps and --eval-ema are for --eval-data FILE or "
                         "--eval-split F");
  if (options.evalSplit != 0)
    notes.push_back(std::to_string(training.samplesHeldOut()) +
                    " samples of --data are held out (--eval-split " +
                    shortestNumber(options.evalSplit) + ")");
  return {};
}

Status RankRun::openFiles() {
  const CheckpointReader *reader = checkpoints ? checkpoints->resumed() : nullptr;
  const Manifest *resumed = reader && reader->manifest() ? &*reader->manifest() : nullptr;
  if (resumed) {
    Result<std::vector<std::string>> taken = takeOver(*resumed, plan, options);
    if (!taken.ok())
      return Status::error("'" + reader->path() + "': " + taken.status().message());
    notes = std::move(*taken);
    skippedSteps = resumed->skippedSteps;
    if (lossScale && resumed->lossScale != 0)
      lossScale->resume(resumed->lossScale, resumed->growthTracker);
    guardWindow = {resumed->guardLosses, resumed->guardNorms};
  }
  if (reader)
    std::ranges::move(reader->describeDifferences(plan), std::back_inserter(notes));
  if (Status status = openTrainingData(resumed); !status.ok())
    return status;
  if (Status status = chooseSchedule(); !status.ok())
    return status;
  if (Status status = openEvaluation(); !status.ok())
    return status;
  if (Status status = chooseTracedSteps(); !status.ok())
    return status;
  if (!reader)
    if (Status status = openWeights(); !status.ok())
      return status;
  return checkOutputs();
}

/// Each group of the optimizer follows the run's schedule from its own learning rate.
Status RankRun::chooseGroupRates() {
  for (const fsdp_optimizer &group : plan.optimizerGroups()) {
    LearningRateSchedule &own = groupSchedules.emplace_back(schedule);
    if (group.options & FSDP_OWN_LR)
      own.peak = group.lr;
    if (own.minimum > own.peak)
      return Status::error("--min-lr " + shortestNumber(own.minimum) +
                           " is above the learning rate of a group of the optimizer, " +
                           shortestNumber(own.peak));
  }
  groupLearningRates.resize(groupSchedules.size());
  return {};
}

Status RankRun::chooseTracedSteps() {
  if (options.trace.empty())
    return {};
  const int64_t first = issued + 1; // the first step measures temporaries
  int64_t begin = options.traceStep.value_or(std::min(first + 2, figures.steps));
  // The first step of each shape measures temporaries, too.
  while (!options.traceStep && begin < figures.steps && !training.hasRun(first, begin))
    ++begin;
  if (first >= figures.steps)
    return Status::error("--trace " + options.trace +
                         ": the first step also measures temporaries, and the run has no other");
  if (begin < first + 1)
    return Status::error("--trace-step " + std::to_string(begin) + ": step " +
                         std::to_string(first) +
                         " is the run's first, which also measures temporaries");
  if (begin > figures.steps)
    return Status::error("--trace-step " + std::to_string(begin) + " of a run of " +
                         std::to_string(figures.steps) + " steps");
  const size_t shape = training.shapeOf(begin);
  if (!training.hasRun(first, begin))
    return Status::error("--trace " + options.trace + ": step " + std::to_string(begin) +
                         " is the run's first with samples of shape " + std::to_string(shape + 1) +
                         ", which also measures temporaries");
  const size_t count = static_cast<size_t>(options.traceCount);
  for (int64_t step = begin; step <= figures.steps && tracedSteps.size() < count; ++step)
    if (training.shapeOf(step) == shape)
      tracedSteps.push_back(step);
  if (tracedSteps.size() < count)
    return Status::error("--trace-count " + std::to_string(count) + ": from step " +
                         std::to_string(begin) + " on the run has " +
                         std::to_string(tracedSteps.size()) + " steps" +
                         (figures.shapes.size() > 1 ? " of that step's shape" : ""));
  return {};
}

Status RankRun::makeExecutor() {
  ExecutorOptions execution{.kernels = options.kernels,
                            .graph = options.graph,
                            .clipGradNorm = options.clipGradNorm,
                            .clipGradValue = options.clipGradValue,
                            .lossLag = options.lag(),
                            .findNonFinite = options.findNan,
                            .collectsFailures = !options.operatorReport.empty(),
                            .pinHostArena = options.pinMemory};
  if (options.stopOutliers != 0)
    guard.emplace("--stop-outliers", options.stopOutliers, std::move(guardWindow));
  if (options.skipOutliers != 0) {
    guard.emplace("--skip-outliers", options.skipOutliers, std::move(guardWindow));
    execution.allowsUpdates = [this](const StepResults &own) { return allowsUpdates(own); };
  }
  if (Status status = training.makeExecutors(arena, execution); !status.ok())
    return status;
  if (evaluation) {
    if (Status status = evaluation->makeExecutors(arena, training.hostArena()); !status.ok())
      return status;
    training.resume();
  }
  if (options.evalAverage || !options.saveAverage.empty())
    average.emplace(plan, device, arena, training.hostArena());
  if (weights) {
    std::unique_ptr<Stream> stream = device.makeStream("fsdp-weights");
    LoadingBar bar("weights", !isFirst || options.quiet);
    auto read = [&](int64_t done, int64_t total) { bar.at(done, total); };
    if (Status status = loadWeights(plan, communicator.rank(), *stream, arena, training.hostArena(),
                                    *weights, read);
        !status.ok())
      return status;
  }
  if (isFirst && !tracedSteps.empty())
    trace.emplace(training.planOf(tracedSteps.front()), device, options.device == "cpu",
                  tracedSteps);
  exchanged.resize(communicator.size());
  losses.resize(communicator.size());
  savingStates.resize(communicator.size());
  return {};
}
