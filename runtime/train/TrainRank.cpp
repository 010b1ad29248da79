//===- TrainRank.cpp - One rank's run -------------------------------------===//

#include "train/TrainRank.h"

#include "executor/OptimizerUpdate.h"
#include "fsdp/Files/OutputFile.h"
#include "plan/NormType.h"
#include "plan/ValidateClipping.h"
#include "train/OperatorReport.h"
#include "train/OrderAgreement.h"
#include "train/RankRun.h"
#include "train/ResumedOptions.h"
#include "train/StopSignals.h"

#include <ATen/Parallel.h>

#include <cmath>

using namespace fsdp::rt;

Outcome RankRun::run() {
  at::set_num_threads(static_cast<int>(options.threads));
  if (Outcome outcome = agreeOnOrder(communicator, plan); !outcome.status.ok())
    return outcome;
  if (Outcome outcome = openCheckpoints(); !outcome.status.ok())
    return outcome;
  if (Outcome outcome = openSaver(); !outcome.status.ok())
    return outcome;
  if (Outcome outcome = agree(communicator, openFiles()); !outcome.status.ok())
    return outcome;
  if (Outcome outcome = training.agreeOnData(); !outcome.status.ok())
    return outcome;
  Result<std::byte *> memory =
      communicator.makeArena(static_cast<size_t>(plan.tables().arena_bytes));
  if (!memory.ok())
    return {memory.status(), false};
  arena = *memory;
  if (Outcome outcome = agree(communicator, makeExecutor()); !outcome.status.ok())
    return outcome;
  if (!weights) {
    if (Outcome outcome = checkpoints->restore(arena, training.hostArena()); !outcome.status.ok())
      return outcome;
    const Status own = isFirst ? log.write(checkpoints->read()) : Status();
    if (Outcome outcome = agree(communicator, own); !outcome.status.ok())
      return outcome;
  }
  if (isFirst) {
    console.emplace(options, plan, backend, figures);
    console->begin(origin, notes);
  }
  weights.reset();

  if (Outcome outcome = train(); !outcome.status.ok())
    return outcome;
  if (console)
    console->end(training.executor().statistics(), stopped);
  if (Outcome outcome = save("weights", options.save); !outcome.status.ok())
    return outcome;
  return saveAverage();
}

Outcome RankRun::save(const char *what, const std::string &path) {
  if (path.empty())
    return {};
  std::unique_ptr<Stream> stream = device.makeStream("fsdp-weights");
  Outcome outcome = agree(
      communicator, saveWeights(plan, communicator, *stream, arena, training.hostArena(), path));
  if (outcome.status.ok() && console)
    console->saved(what, path);
  return outcome;
}

/// The state is of no use afterwards, so the weights stay replaced.
Outcome RankRun::saveAverage() {
  if (options.saveAverage.empty())
    return {};
  if (isAveraged())
    if (Outcome outcome = agree(communicator, average->use()); !outcome.status.ok())
      return outcome;
  return save("moving average of the weights", options.saveAverage);
}

Result<std::optional<StepResults>> RankRun::issue(int64_t step) {
  if (trace)
    training.executorOf(step).trace(trace->tracerOf(step));
  for (size_t i = 0; i < groupSchedules.size(); ++i)
    groupLearningRates[i] = groupSchedules[i].at(step);
  return training.issue({.step = step,
                         .skipped = skippedSteps,
                         .learningRate = schedule.at(step),
                         .lossScale = lossScale ? lossScale->value() : 0,
                         .seed = options.seed,
                         .groupLearningRates = groupLearningRates,
                         .byEntry = isTraced(step)});
}

Outcome RankRun::exchange(const StepResults &own) {
  StepExchange mine{own.loss, own.partialNorm, StopSignals::requested() ? 1u : 0u,
                    saver ? saver->state() : CheckpointSaver::State::Idle, own.nonFinite ? 1u : 0u};
  return {communicator.allGather(kControlLane, &mine, exchanged.data(), sizeof(mine)), false};
}

StepFigures RankRun::figuresOfStep() const {
  double lossSum = 0, norm = 0;
  for (size_t rank = 0; rank < exchanged.size(); ++rank) {
    lossSum += exchanged[rank].loss;
    // The other ranks hold the same shards.
    if (rank < plan.normRanks())
      norm = joinNormParts(plan.normType(), norm, exchanged[rank].partialNorm);
  }
  const double inverseScale = lossScale ? inverseOfScale(lossScale->value()) : 1;
  return {lossSum / static_cast<double>(exchanged.size()),
          normOfPart(plan.normType(), norm) * inverseScale, std::isfinite(norm)};
}

Result<bool> RankRun::allowsUpdates(const StepResults &own) {
  if (Outcome outcome = exchange(own); !outcome.status.ok())
    return outcome.status;
  // All ranks see the same figures, and so judge alike.
  const StepFigures figuresOf = figuresOfStep();
  skipped.clear();
  if (lossScale && !figuresOf.areGradientsFinite)
    return false; // no outlier: the scale was too large
  skipped = guard->judge(own.step, figuresOf.loss, figuresOf.gradientNorm);
  skippedSteps += skipped.empty() ? 0 : 1;
  return skipped.empty();
}

Status RankRun::updateLossScale(const StepFigures &figuresOf) {
  if (!lossScale)
    return {};
  if (!figuresOf.areGradientsFinite) {
    skipped = "gradients are not finite at a loss scale of " + shortestNumber(lossScale->value());
    ++skippedSteps;
  } else if (!guard || options.skipOutliers == 0) {
    skipped.clear();
  }
  lossScale->update(figuresOf.areGradientsFinite);
  if (isLossScale(lossScale->value()))
    return {};
  return Status::error("the loss scale falls to " + shortestNumber(lossScale->value()) +
                       ": gradients are not finite at any scale");
}

void RankRun::writeDump(const std::string &message, const std::string &dump) {
  if (options.failureDump.empty() || dumped.exchange(true))
    return;
  std::string path = options.failureDump + ".rank" + std::to_string(communicator.rank()) + ".txt";
  // The run has failed already, so an error here cannot be reported.
  std::string problem, text = message + "\n" + dump;
  if (std::optional<fsdp::OutputFile> file = fsdp::OutputFile::open(path, problem))
    if (!file->write(text.data(), text.size()))
      (void)file->commit();
}

Outcome RankRun::train() {
  training.watch(
      watchdogOptions(options),
      [this](const std::string &message, const std::string &dump) { writeDump(message, dump); });
  Outcome outcome = loop();
  if (!outcome.status.ok())
    writeDump(outcome.status.message(), training.progress().dump());
  if (isFirst && !options.operatorReport.empty())
    if (Status status = writeOperatorReport(training.executor(), options.operatorReport);
        !status.ok() && outcome.status.ok())
      outcome = {status, false};
  training.endWatch();
  return outcome;
}

Outcome RankRun::finishStep(const StepResults &own) {
  if (Status status = training.watched(); !status.ok())
    return {status, false};
  if (options.skipOutliers == 0) // with it, allowsUpdates() has exchanged the results of this step
    if (Outcome outcome = exchange(own); !outcome.status.ok())
      return outcome;
  Clock::time_point now = Clock::now();
  double milliseconds = std::chrono::duration<double, std::milli>(now - lastResults).count();
  lastResults = now;

  bool nonFinite = false;
  for (size_t rank = 0; rank < exchanged.size(); ++rank) {
    losses[rank] = exchanged[rank].loss;
    savingStates[rank] = exchanged[rank].saving;
    nonFinite |= exchanged[rank].nonFinite != 0;
    // A signal during the last step has no effect.
    stopped |= exchanged[rank].stop != 0 && issued < figures.steps;
  }
  if (saver)
    if (Outcome outcome = saver->follow(savingStates); !outcome.status.ok())
      return outcome;
  const int64_t samples = training.samplesOf(own.step);
  samplesRead += samples;
  const StepFigures figuresOf = figuresOfStep();
  const auto [loss, gradientNorm, areFinite] = figuresOf;
  const double scaleOfStep = lossScale ? lossScale->value() : 0;
  Status usual = updateLossScale(figuresOf);
  // A step that overflows at its loss scale is no outlier.
  if (usual.ok() && options.stopOutliers != 0 && (!lossScale || areFinite))
    if (std::string outlier = guard->judge(own.step, loss, gradientNorm); !outlier.empty())
      usual = Status::error(outlier);
  if (nonFinite)
    return endAt(tellNonFinite(communicator, own.step, training.executor().nonFinite()));
  if (!console)
    return endAt({usual, true});
  if (trace && isTraced(own.step) && (own.step == tracedSteps.back() || stopped))
    if (Status status = writeTraceFile(*trace, own.step, options.trace); !status.ok())
      return {status, false};
  const ShapeFigures &shape = training.shapes()[training.shapeOf(own.step)];
  StepRecord record{
      own.step,
      loss,
      losses,
      gradientNorm,
      schedule.at(own.step),
      milliseconds,
      static_cast<double>(samples) * 1000 / milliseconds,
      std::chrono::duration<double, std::milli>(training.executor().issueTime()).count(),
      samplesRead,
      figures.tokensPerSample,
      samples,
      figures.shapes.size() > 1 ? training.shapeOf(own.step) + 1 : 0,
      !skipped.empty(),
      scaleOfStep,
      shape.modelFlops,
      shape.boundMilliseconds,
      options.peakTflops};
  if (Status status = log.write(record); !status.ok())
    return {status, false};
  if (Status status = events.write(record); !status.ok())
    return {status, false};
  if (!skipped.empty())
    console->skipped(skipped);
  console->step(record, own.step == (stopped ? issued : figures.steps));
  noteNonFinite(record);
  if (Status status = tellSaved(); !status.ok())
    return {status, false};
  return endAt({usual, true});
}

Outcome RankRun::endAt(Outcome outcome) {
  // An earlier checkpoint may still be in progress: it is finished, so that the run can be resumed
  // from it.
  if (!outcome.status.ok() && outcome.known)
    (void)finishCheckpoint();
  return outcome;
}

/// Prints once that the run goes on with NaN or Inf, if no guard checks for them.
void RankRun::noteNonFinite(const StepRecord &record) {
  const bool isTold = guard || nonFiniteTold || record.skipped;
  if (isTold || (std::isfinite(record.loss) && std::isfinite(record.gradientNorm)))
    return;
  nonFiniteTold = true;
  console->note("step " + std::to_string(record.step) +
                ": loss or gradients are not finite; the run goes on, and so do its checkpoints "
                "(--stop-outliers ends it, --find-nan says where this begins)");
}

/// Prints once that streams cannot report their progress to the watchdog.
void RankRun::tellLostMarks() {
  if (!console || marksTold)
    return;
  if (const std::string lost = training.progress().lostMarks(); !lost.empty()) {
    marksTold = true;
    console->note("a collective that hangs is found by NCCL and by the other ranks alone: the "
                  "device does not say what its streams do (" +
                  lost + ")");
  }
}

/// Prints once for each shape whether its steps are graphs, when this is known.
void RankRun::tellGraph() {
  const GraphNote &note = training.executor().graphNote();
  const size_t shape = training.shapeOf(issued);
  if (!console || graphTold.contains(shape) || options.device == "cpu" ||
      note.state == GraphNote::State::Open)
    return;
  graphTold.insert(shape);
  console->note("CUDA graph " + (figures.shapes.size() == 1
                                     ? note.text
                                     : "shape " + std::to_string(shape + 1) + ": " + note.text));
}

Outcome RankRun::drain() {
  while (true) {
    Result<std::optional<StepResults>> results = training.executor().finish();
    if (!results.ok() || !*results)
      return {results.status(), false};
    if (Outcome outcome = finishStep(**results); !outcome.status.ok())
      return outcome;
  }
}

bool RankRun::savesAtEnd() const {
  if (savedStep == issued)
    return false;
  return stopped ? options.saveOnExit : options.saveEvery.has_value();
}

Status RankRun::tellSaved() {
  std::optional<SavedCheckpoint> saved = saver ? saver->takeSaved() : std::nullopt;
  if (!saved || !console)
    return {};
  console->checkpoint(*saved);
  return log.write(*saved);
}

Outcome RankRun::finishCheckpoint() {
  if (!saver)
    return {};
  Outcome outcome = saver->finish();
  return outcome.status.ok() ? Outcome{tellSaved(), false} : outcome;
}

Outcome RankRun::saveCheckpoint() {
  if (Outcome outcome = finishCheckpoint(); !outcome.status.ok())
    return outcome;
  Manifest state = manifestOf(plan, options);
  state.step = savedStep = issued;
  state.skippedSteps = skippedSteps;
  if (lossScale) {
    state.lossScale = lossScale->value();
    state.growthTracker = lossScale->growthTracker();
  }
  if (guard) {
    state.guardLosses = guard->window().losses;
    state.guardNorms = guard->window().norms;
  }
  state.steps = figures.steps;
  state.samples = samplesRead;
  state.samplesInData = figures.samplesInData;
  state.shapes = training.manifestShapes();
  if (Outcome outcome = saver->save(std::move(state), arena, training.hostArena());
      !outcome.status.ok())
    return outcome;
  // So that the next step's time does not include this.
  lastResults = Clock::now();
  return {tellSaved(), false};
}

Outcome RankRun::evaluate(EvaluationRecord &record) {
  auto told = [this](const std::string &message, const std::string &dump) {
    writeDump(message, dump);
  };
  record.isOfAverage = options.evalAverage && isAveraged();
  if (record.isOfAverage)
    if (Status status = average->use(); !status.ok())
      return {status, false};
  if (Outcome outcome = evaluation->run(issued, told, record); !outcome.status.ok())
    return outcome;
  return {record.isOfAverage ? average->restore() : Status(), false};
}

Outcome RankRun::evaluate() {
  if (!evaluation || evaluatedStep == issued)
    return {};
  evaluatedStep = issued;
  EvaluationRecord record;
  if (Outcome outcome = evaluate(record); !outcome.status.ok())
    return outcome;
  training.resume();
  lastResults = Clock::now();
  if (evaluation->isStopped()) {
    stopped = issued < figures.steps;
    if (console)
      console->note("a signal stopped the evaluation after step " + std::to_string(issued));
    return {};
  }
  if (!console)
    return {};
  console->evaluation(record);
  if (Status status = log.write(record); !status.ok())
    return {status, false};
  return {events.write(record), false};
}

Outcome RankRun::loop() {
  lastResults = Clock::now();
  while (issued < figures.steps && !stopped) {
    if (training.changesShape(issued + 1)) {
      if (Outcome outcome = drain(); !outcome.status.ok())
        return outcome;
      if (stopped)
        break;
    }
    Result<std::optional<StepResults>> results = issue(issued + 1);
    if (!results.ok())
      return {results.status(), false};
    ++issued;
    tellGraph();
    tellLostMarks();
    if (*results)
      if (Outcome outcome = finishStep(**results); !outcome.status.ok())
        return outcome;
    const bool saves = options.saveEvery && issued % *options.saveEvery == 0;
    const bool evaluates = options.evalEvery && issued % *options.evalEvery == 0;
    if (!saves && !evaluates)
      continue;
    if (Outcome outcome = drain(); !outcome.status.ok())
      return outcome;
    if (evaluates && !stopped)
      if (Outcome outcome = evaluate(); !outcome.status.ok())
        return outcome;
    if (saves)
      if (Outcome outcome = saveCheckpoint(); !outcome.status.ok())
        return outcome;
  }
  if (Outcome outcome = drain(); !outcome.status.ok())
    return outcome;
  if (!stopped)
    if (Outcome outcome = evaluate(); !outcome.status.ok())
      return outcome;
  if (savesAtEnd())
    if (Outcome outcome = saveCheckpoint(); !outcome.status.ok())
      return outcome;
  return finishCheckpoint();
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
    // Aborts before the executor is destroyed, since its streams may be waiting for a peer.
    if (!outcome.status.ok() && !outcome.known)
      communicator.abort(Status::saidBy(communicator.rank(), outcome.status));
  }
  return outcome;
}
