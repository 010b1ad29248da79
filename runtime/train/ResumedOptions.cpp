//===- ResumedOptions.cpp - Options from a checkpoint ---------------------===//

#include "train/ResumedOptions.h"
#include "fsdp/Plan/Optimizers.h"
#include "plan/Fingerprint.h"
#include "plan/NormType.h"
#include "plan/ValidateClipping.h"
#include "train/OutlierGuard.h"

#include <algorithm>
#include <cmath>

using namespace fsdp::rt;

/// The optimizer's name, with the flag that adds a state.
static std::string optimizerName(const PlanView &plan) {
  const fsdp_optimizer &optimizer = plan.tables().optimizer;
  std::string name = optimizerKindName(optimizer);
  for (const fsdp::plan::OptimizerState &state : fsdp::plan::kindOf(optimizer).states)
    if (const fsdp::plan::OptimizerOption *option = fsdp::plan::findOption(state.option);
        option && option->isFlag() && option->valueOf(optimizer) != 0)
      name += " with " + std::string(option->name);
  return name;
}

/// The learning rate of each optimizer group.
static std::vector<double> groupLearningRates(const PlanView &plan, const TrainOptions &options) {
  std::vector<double> rates;
  for (const fsdp_optimizer &group : plan.optimizerGroups())
    rates.push_back(group.options & FSDP_OWN_LR ? group.lr : options.learningRate);
  return rates;
}

Manifest fsdp::rt::manifestOf(const PlanView &plan, const TrainOptions &options) {
  const fsdp_plan &tables = plan.tables();
  Manifest manifest;
  manifest.model = plan.string(tables.model);
  manifest.fingerprint = fingerprintOf(plan);
  manifest.optimizer = optimizerName(plan);
  manifest.ranks = tables.world_size;
  manifest.replicas = tables.replicas;
  manifest.shuffle = options.shuffle;
  manifest.overfit = options.overfit;
  manifest.seed = options.seed;
  manifest.schedule = shapeName(options.schedule);
  manifest.learningRate = options.learningRate;
  manifest.minimumLearningRate = options.minimumLearningRate;
  manifest.groupLearningRates = groupLearningRates(plan, options);
  manifest.warmupSteps = options.warmupSteps;
  manifest.decaySteps = options.decaySteps.value_or(0);
  manifest.clipGradNorm = options.clipGradNorm.value_or(tables.clip_grad_norm);
  if (plan.clipsGradients())
    manifest.clipNormType = normTypeName(plan.normType());
  manifest.clipGradValue = options.clipGradValue.value_or(tables.optimizer.clip_grad_value);
  manifest.evalSplit = options.evalSplit;
  manifest.evalSplitSeed = options.evalSplitSeed;
  manifest.stopOutliers = options.stopOutliers;
  manifest.skipOutliers = options.skipOutliers;
  return manifest;
}

static std::string text(bool value) { return value ? "on" : "off"; }
static std::string text(uint64_t value) { return std::to_string(value); }
static std::string text(int64_t value) { return std::to_string(value); }
static std::string text(double value) { return shortestNumber(value); }
static std::string text(LearningRateShape value) { return shapeName(value); }
static std::string text(const std::vector<double> &values) {
  std::string joined;
  for (double value : values)
    joined += (joined.empty() ? "" : ", ") + text(value);
  return joined.empty() ? "none" : joined;
}

namespace {
class Taken {
public:
  Taken(const TrainOptions &options, std::vector<std::string> &notes)
      : options(options), notes(notes) {}

  /// Sets `option` to `stored`, unless the flag is on the command line.
  template <typename Option, typename Stored>
  void take(const char *flag, Option &option, const Stored &stored) {
    if (!options.given.contains(flag)) {
      option = stored;
      return;
    }
    if (Option(stored) != option)
      notes.push_back(std::string(flag) + ": " + describe(option) + ", the checkpoint has " +
                      text(stored));
  }

private:
  template <typename T> static std::string describe(const T &value) { return text(value); }
  template <typename T> static std::string describe(const std::optional<T> &value) {
    return text(*value);
  }

  const TrainOptions &options;
  std::vector<std::string> &notes;
};
} // namespace

/// Refuses values that a hostile or damaged file may have, but that a command line cannot give.
static Status checkValues(const Manifest &manifest) {
  auto rate = [](double value) { return std::isfinite(value) && value >= 0; };
  if (!rate(manifest.learningRate) || !rate(manifest.minimumLearningRate))
    return Status::error("its learning rate is " + shortestNumber(manifest.learningRate) + " to " +
                         shortestNumber(manifest.minimumLearningRate));
  constexpr int64_t kMost = 1'000'000'000'000'000;
  if (manifest.steps > kMost || manifest.samples > kMost || manifest.step > manifest.steps)
    return Status::error("it is of step " + std::to_string(manifest.step) + " of " +
                         std::to_string(manifest.steps) + " after " +
                         std::to_string(manifest.samples) + " samples");
  if (!shapeNamed(manifest.schedule))
    return Status::error("its lr_schedule is '" + manifest.schedule + "'");
  if (!(manifest.evalSplit >= 0 && manifest.evalSplit <= 0.5))
    return Status::error("its eval_split is " + shortestNumber(manifest.evalSplit));
  if (manifest.skippedSteps > manifest.step)
    return Status::error("it has skipped " + std::to_string(manifest.skippedSteps) + " of " +
                         std::to_string(manifest.step) + " steps");
  auto fits = [](const std::vector<double> &numbers) {
    return numbers.size() <= GuardWindow::kSteps &&
           std::ranges::all_of(numbers, [](double number) { return std::isfinite(number); });
  };
  if (!rate(manifest.stopOutliers) || !rate(manifest.skipOutliers) ||
      (manifest.stopOutliers != 0 && manifest.skipOutliers != 0) || !fits(manifest.guardLosses) ||
      !fits(manifest.guardNorms))
    return Status::error("its guard against outliers has numbers that no run saves");
  if (manifest.lossScale != 0 && !isLossScale(manifest.lossScale))
    return Status::error("its loss scale is " + shortestNumber(manifest.lossScale));
  if (manifest.clipGradNorm != 0 && !isClipLimit(manifest.clipGradNorm))
    return Status::error("its clip_grad_norm is " + shortestNumber(manifest.clipGradNorm));
  if (manifest.clipGradValue != 0 && !isClipLimit(manifest.clipGradValue))
    return Status::error("its clip_grad_value is " + shortestNumber(manifest.clipGradValue));
  return {};
}

/// Takes the split of held-out samples from the checkpoint, whatever the value of --seed.
static void takeSplit(const Manifest &manifest, TrainOptions &options, Taken &taken,
                      std::vector<std::string> &notes) {
  if (options.evalData.empty())
    taken.take("--eval-split", options.evalSplit, manifest.evalSplit);
  if (options.evalSplit == manifest.evalSplit)
    options.evalSplitSeed = manifest.evalSplitSeed;
  else if (options.evalSplit != 0) {
    options.evalSplitSeed = options.seed;
    notes.push_back("--eval-split: samples that are held out now have trained before");
  } else if (manifest.evalSplit != 0)
    notes.push_back("samples that the checkpoint's run held out train now");
}

/// The command line decides about both guards if it has one of their flags; else the checkpoint
/// does. A guard of the checkpoint's run that skips updates is dropped if this run cannot skip
/// updates.
static void takeGuards(const Manifest &manifest, const PlanView &plan, TrainOptions &options,
                       Taken &taken, std::vector<std::string> &notes) {
  const bool stops = options.given.contains("--stop-outliers"),
             skips = options.given.contains("--skip-outliers");
  const bool canSkip = plan.takesNorm() && options.hostSeesSteps() && !options.findNan;
  if (!stops && !skips && manifest.skipOutliers != 0 && !canSkip) {
    notes.push_back("no update is left out here, the checkpoint's run had --skip-outliers " +
                    text(manifest.skipOutliers));
    return;
  }
  if (stops || !skips)
    taken.take("--stop-outliers", options.stopOutliers, manifest.stopOutliers);
  if (skips || !stops)
    taken.take("--skip-outliers", options.skipOutliers, manifest.skipOutliers);
}

/// Takes the limits of clipping from the checkpoint if this binary clips alike.
static void takeClipping(const Manifest &manifest, const Manifest &own, TrainOptions &options,
                         Taken &taken, std::vector<std::string> &notes) {
  auto take = [&](const char *flag, std::optional<double> &option, double saved, double compiled,
                  const std::string &what) {
    if (saved != 0 && compiled != 0)
      taken.take(flag, option, saved);
    else if (saved != 0 || compiled != 0)
      notes.push_back("this binary " + std::string(compiled != 0 ? "clips" : "does not clip") +
                      what + ", the checkpoint's run " + (compiled != 0 ? "did not" : "did"));
  };
  take("--clip-grad-norm", options.clipGradNorm, manifest.clipGradNorm, own.clipGradNorm,
       " gradients");
  if (manifest.clipGradNorm != 0 && own.clipGradNorm != 0 &&
      manifest.clipNormType != own.clipNormType)
    notes.push_back("this binary clips gradients by norm " + own.clipNormType +
                    ", the checkpoint's run by norm " + manifest.clipNormType);
  take("--clip-grad-value", options.clipGradValue, manifest.clipGradValue, own.clipGradValue,
       " gradients by value");
}

/// The scale itself is a state of the run.
static void noteLossScale(const Manifest &manifest, const PlanView &plan,
                          std::vector<std::string> &notes) {
  if (plan.scalesLoss() == (manifest.lossScale != 0))
    return;
  notes.push_back(plan.scalesLoss()
                      ? "the checkpoint's run did not scale its loss: the loss scale begins with " +
                            text(plan.tables().loss_scale.init)
                      : "this binary does not scale its loss, the checkpoint's run did, by " +
                            text(manifest.lossScale));
}

Result<std::vector<std::string>> fsdp::rt::takeOver(const Manifest &manifest, const PlanView &plan,
                                                    TrainOptions &options) {
  if (Status status = checkValues(manifest); !status.ok())
    return status;
  const Manifest own = manifestOf(plan, options);
  if (manifest.optimizer != own.optimizer)
    return Status::error("its optimizer is " + manifest.optimizer + ", this binary's is " +
                         own.optimizer);
  std::vector<std::string> notes;
  // A model's name is its file's name, so a difference is only a note: names and shapes of tensors
  // have been compared.
  if (manifest.model != own.model)
    notes.push_back("model '" + own.model + "', the checkpoint is of model '" + manifest.model +
                    "'");
  if (manifest.fingerprint != own.fingerprint)
    notes.push_back("compiled otherwise: plan " + own.fingerprint + " for " +
                    std::to_string(own.ranks) + " ranks, the checkpoint's is " +
                    manifest.fingerprint + " for " + std::to_string(manifest.ranks));
  Taken taken(options, notes);
  taken.take("--steps", options.steps, manifest.steps);
  taken.take("--seed", options.seed, manifest.seed);
  taken.take("--shuffle", options.shuffle, manifest.shuffle);
  taken.take("--overfit", options.overfit, manifest.overfit);
  taken.take("--lr-schedule", options.schedule, *shapeNamed(manifest.schedule));
  taken.take("--lr", options.learningRate, manifest.learningRate);
  taken.take("--min-lr", options.minimumLearningRate, manifest.minimumLearningRate);
  taken.take("--warmup-steps", options.warmupSteps, manifest.warmupSteps);
  takeSplit(manifest, options, taken, notes);
  takeGuards(manifest, plan, options, taken, notes);
  // Learning rates of groups are compiled in, and are not taken from the checkpoint.
  if (std::vector<double> rates = groupLearningRates(plan, options);
      rates != manifest.groupLearningRates)
    notes.push_back("learning rates of the optimizer's groups: " + text(rates) +
                    ", the checkpoint has " + text(manifest.groupLearningRates));
  if (options.schedule == LearningRateShape::WarmupStableDecay && manifest.decaySteps != 0)
    taken.take("--decay-steps", options.decaySteps, manifest.decaySteps);
  takeClipping(manifest, own, options, taken, notes);
  noteLossScale(manifest, plan, notes);
  return notes;
}
