//===- CommandLineChecks.cpp - Checks of flags and their combinations -----===//

#include "checkpoint/WeightsFiles.h"
#include "data/SampleFile.h"
#include "fsdp/Files/SameFile.h"
#include "plan/ProgramPlans.h"
#include "plan/ValidateClipping.h"
#include "train/CommandLine.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <thread>
#include <unistd.h>

using namespace fsdp::rt;

// More threads per core only wait for each other; far more can bring down the machine.
static constexpr uint64_t kThreadsPerCore = 8, kThreadsOfAllRanksPerCore = 256;

/// An error if `count` threads are more than `perCore` for each core. `what` asks for them.
static Status checkThreads(const std::string &what, uint64_t count, uint64_t perCore) {
  // The cores to which the process is bound; hardware_concurrency() is 0 if unknown.
  uint64_t cores = std::max(1u, std::thread::hardware_concurrency());
  if (count <= perCore * cores)
    return {};
  return Status::error(what + ": " + std::to_string(count) + " threads, expected at most " +
                       std::to_string(perCore * cores) + " on " + std::to_string(cores) +
                       (cores == 1 ? " core" : " cores"));
}

Status CommandLine::setThreads(const char *environmentThreads) {
  std::string source;
  if (given("--threads")) {
    source = typed("--threads");
    if (options.threads == 0)
      return Status::error(source + ": at least 1 thread is needed");
  } else if (environmentThreads && *environmentThreads) {
    source = "OMP_NUM_THREADS is '" + std::string(environmentThreads) + "'";
    // OpenMP allows a list, one number per nesting level.
    const char *end = environmentThreads + std::strcspn(environmentThreads, ",");
    auto [stop, error] = std::from_chars(environmentThreads, end, options.threads);
    if (error != std::errc() || stop != end || options.threads == 0)
      return Status::error(source + ", expected a positive number");
  }
  if (Status status = checkThreads(source, options.threads, kThreadsPerCore); !status.ok())
    return status;
  return checkRanks();
}

/// Checks that this machine has room for all ranks, if they are threads.
Status CommandLine::checkRanks() {
  // A number other than the plan's is refused at launch.
  if (!options.ranks || *options.ranks != plan.tables().world_size)
    return {};
  const std::string flag = typed("--ranks");
  if (Status status =
          checkThreads(flag + " with " + std::to_string(options.threads) +
                           (options.threads == 1 ? " thread each" : " threads each"),
                       uint64_t(*options.ranks) * options.threads, kThreadsOfAllRanksPerCore);
      !status.ok())
    return status;
  if (options.device != "cpu")
    return {};
  const double bytes = double(*options.ranks) * static_cast<double>(plan.tables().arena_bytes);
  const double memory =
      double(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (bytes <= memory)
    return {};
  char text[96];
  std::snprintf(text, sizeof(text), " arenas take %.4g GB, this machine has %.4g GB of memory",
                bytes / 1e9, memory / 1e9);
  return Status::error(flag + ": " + std::to_string(*options.ranks) + text);
}

Status CommandLine::checkDevice() {
  bool cuda = options.device == "cuda", hosts = options.communicator == "local" ||
                                                options.communicator == "shm" ||
                                                options.communicator == "gloo";
  if (options.communicator == "nccl" && !cuda)
    return Status::error("--communicator nccl connects CUDA devices: it needs --device cuda");
  if (cuda && hosts)
    return Status::error(typed("--communicator") +
                         " moves memory of hosts, but --device cuda has memory of its own: use "
                         "nccl or fake");
  if (!options.collectives.empty() && cuda)
    return Status::error(typed("--collectives") +
                         " moves memory of hosts, but --device cuda has memory of its own");
  if (given("--cuda-graph") && !cuda)
    return Status::error(typed("--cuda-graph") + " is for --device cuda");
  if (given("--pin-memory") && (!cuda || plan.tables().host_arena_bytes == 0))
    return Status::error(typed("--pin-memory") +
                         (cuda ? " is for steps that offload something to the host, which this one "
                                 "does not"
                               : " is for --device cuda"));
  return checkFake();
}

Status CommandLine::checkFake() {
  bool fake = options.communicator == "fake";
  for (const char *flag : {"--fake-ranks", "--fake-gb-per-s", "--fake-latency-us"})
    if (given(flag) && !fake)
      return Status::error(typed(flag) + " is for --communicator fake");
  if (!fake)
    return {};
  if (!options.collectives.empty())
    return Status::error(typed("--collectives") + " meets peers, but --communicator fake has none");
  if (options.fakeRanks != plan.tables().world_size)
    return Status::error(
        (given("--fake-ranks") ? typed("--fake-ranks") : std::string("no --fake-ranks")) +
        ", but this binary is compiled for " + std::to_string(plan.tables().world_size) + " ranks");
  for (const char *flag : {"--fake-gb-per-s", "--fake-latency-us"})
    if (given(flag) && !(std::isfinite(app[flag]->as<double>()) && app[flag]->as<double>() > 0))
      return Status::error(typed(flag) + ": expected a finite number above 0");
  if (given("--fake-latency-us") && !given("--fake-gb-per-s"))
    return Status::error(
        typed("--fake-latency-us") +
        " belongs to the times of --fake-gb-per-s: without it collectives copy alone");
  if (options.ranks)
    return Status::error("--communicator fake needs no other ranks, but " + typed("--ranks") +
                         " runs all of them as threads");
  for (const char *flag : {"--save", "--save-ema", "--checkpoint-dir", "--resume"})
    if (given(flag))
      return Status::error(std::string(flag) + ": a fake run has nothing worth saving");
  return {};
}

Status CommandLine::checkPaths() {
  if (options.data.empty())
    return Status::error("--data FILE is needed: the samples to train on");
  for (const std::string &path : options.data)
    if (path.ends_with(".safetensors") && options.dataType)
      return Status::error("--data-dtype " + dataType + " describes raw tokens, but --data " +
                           path + " names a safetensors file");
  for (const char *flag : {"--eval-ema", "--save-ema"})
    if (given(flag) && !plan.hasAverage())
      return Status::error(typed(flag) + ": this binary keeps no moving average of the weights; "
                                         "compile it with fsdpc --ema-decay");
  for (const char *flag : {"--init", "--save", "--save-ema"})
    if (given(flag) && !app[flag]->as<std::string>().ends_with(".safetensors") &&
        !(flag == std::string("--init") && options.init.ends_with(kWeightsIndexEnd)))
      return Status::error(typed(flag) + ": the name must end with .safetensors");
  // RankRun::openWeights() compares the outputs with --init. A pattern that matches no file is an
  // error where the data are opened.
  std::vector<NamedPath> data;
  for (const auto &[flag, patterns] :
       {std::pair{"--data", options.data}, {"--eval-data", options.evalData}})
    if (auto paths = findDataFiles(patterns, flag); paths.ok())
      for (const std::string &path : *paths)
        data.push_back({flag, splitShape(path).second});
  if (std::optional<std::string> clash = findClash(data, {{"--save", options.save},
                                                          {"--save-ema", options.saveAverage},
                                                          {"--log-file", options.log},
                                                          {"--trace", options.trace}}))
    return Status::error(*clash);
  return {};
}

Status CommandLine::checkCheckpoints() {
  const bool saves = options.saveEvery || options.saveOnExit;
  for (const char *flag : {"--save-every", "--save-on-exit"})
    if (given(flag) && options.checkpointDir.empty())
      return Status::error(std::string(flag) + " is for --checkpoint-dir DIR");
  if (options.saveEvery && *options.saveEvery < 1)
    return Status::error(typed("--save-every") + ": expected 1 or more");
  if (options.keep && (*options.keep < 1 || !saves))
    return Status::error(typed("--keep") + (saves ? ": expected 1 or more"
                                                  : " is for --save-every N or --save-on-exit"));
  if (options.keepEvery && (*options.keepEvery < 1 || !options.keep))
    return Status::error(typed("--keep-every") +
                         (options.keep ? ": expected 1 or more" : " is for --keep K"));
  if (options.saveInPlace && !saves)
    return Status::error("--save-in-place is for --save-every N or --save-on-exit");
  if (!options.checkpointDir.empty() && !saves && !options.resume)
    return Status::error(typed("--checkpoint-dir") +
                         " needs --save-every N, --save-on-exit or --resume");
  if (!options.resume)
    return {};
  if (options.resume->empty() && options.checkpointDir.empty())
    return Status::error("--resume needs a checkpoint: name its folder, or --checkpoint-dir DIR");
  if (!options.resume->empty() && given("--init"))
    return Status::error(typed("--init") + ": --resume " + *options.resume +
                         " restores all weights");
  return {};
}

Status CommandLine::checkTrace() {
  for (const char *flag : {"--trace-step", "--trace-count"})
    if (given(flag) && options.trace.empty())
      return Status::error(typed(flag) + " is for --trace FILE.json");
  if (options.traceCount < 1)
    return Status::error(typed("--trace-count") + ": expected 1 or more");
  if (options.traceStep && *options.traceStep < 2)
    return Status::error(typed("--trace-step") +
                         ": expected 2 or more, as the first step also measures temporaries");
  return {};
}

Status CommandLine::checkEvaluation() {
  // --eval-split 0 cancels the split of a checkpoint, so 0 is no request.
  for (auto [flag, isAsked] : {std::pair{"--eval-data", given("--eval-data")},
                               {"--eval-split", options.evalSplit != 0},
                               {"--eval-every", given("--eval-every")},
                               {"--eval-steps", given("--eval-steps")},
                               {"--eval-ema", given("--eval-ema")}})
    if (isAsked && evaluationPlans(plan.tables()).empty())
      return Status::error(typed(flag) +
                           ": this binary is compiled without an evaluation; compile it with fsdpc "
                           "--eval-model");
  if (!(options.evalSplit >= 0 && options.evalSplit <= 0.5))
    return Status::error(typed("--eval-split") + ": expected a fraction, at most 0.5");
  if (options.evalSplit != 0 && given("--eval-data"))
    return Status::error(typed("--eval-split") + " evaluates samples of --data, but there is " +
                         typed("--eval-data"));
  for (const char *flag : {"--eval-every", "--eval-steps", "--eval-ema"})
    // A resumed run may take the split from its checkpoint.
    if (given(flag) && !given("--eval-data") && options.evalSplit == 0 && !options.resume)
      return Status::error(typed(flag) + " is for --eval-data FILE or --eval-split F");
  for (auto [flag, value] :
       {std::pair{"--eval-every", options.evalEvery}, {"--eval-steps", options.evalSteps}})
    if (value && *value < 1)
      return Status::error(typed(flag) + ": expected 1 or more");
  return {};
}

Status CommandLine::checkClipping() {
  struct Limit {
    const char *flag;
    std::optional<double> limit;
    bool isCompiled;
    const char *kind;
  };
  for (const Limit &own :
       {Limit{"--clip-grad-norm", options.clipGradNorm, plan.clipsGradients(), "norm"},
        Limit{"--clip-grad-value", options.clipGradValue, plan.clipsValues(), "value"}}) {
    if (!own.limit)
      continue;
    if (!own.isCompiled)
      return Status::error(typed(own.flag) + ": this binary is compiled without clipping by " +
                           own.kind + "; compile the step with " + own.flag);
    if (!isClipLimit(*own.limit))
      return Status::error(typed(own.flag) + ": expected a finite number above 0 (in fp32)");
  }
  return {};
}

Status CommandLine::checkNotNegative(std::initializer_list<const char *> flags) {
  for (const char *flag : flags)
    if (given(flag)) {
      auto value = app[flag]->as<double>();
      if (!std::isfinite(value) || value < 0)
        return Status::error(typed(flag) + ": expected a finite number, 0 or more");
    }
  return {};
}

Status CommandLine::checkLearningRate() {
  if (Status status = checkNotNegative({"--lr", "--min-lr"}); !status.ok())
    return status;
  if (options.decaySteps && options.schedule != LearningRateShape::WarmupStableDecay)
    return Status::error(typed("--decay-steps") + " is for --lr-schedule wsd");
  if (options.decaySteps && *options.decaySteps < 1)
    return Status::error(typed("--decay-steps") + ": expected 1 or more");
  if (given("--min-lr")) {
    if (options.schedule == LearningRateShape::Constant)
      return Status::error(typed("--min-lr") + " has no effect with --lr-schedule constant");
    if (options.minimumLearningRate > options.learningRate)
      return Status::error(typed("--min-lr") + " is above --lr " +
                           shortestNumber(options.learningRate));
  }
  return {};
}

/// The next step's scale depends on this step's gradients.
Status CommandLine::checkLag() {
  if (!plan.scalesLoss())
    return {};
  if (options.lossLag.value_or(0) != 0)
    return Status::error(typed("--loss-lag") + ": this binary scales its loss, so that each step "
                                               "waits for the gradients of the one before");
  options.lossLag = 0;
  return {};
}

Status CommandLine::checkGuards() {
  if (Status status = checkNotNegative({"--stop-outliers", "--skip-outliers"}); !status.ok())
    return status;
  if (options.stopOutliers != 0 && options.skipOutliers != 0)
    return Status::error(typed("--stop-outliers") + " and " + typed("--skip-outliers") +
                         ": a run either ends at an outlier or goes on");
  if (options.findNan && options.skipOutliers != 0)
    return Status::error("--find-nan and " + typed("--skip-outliers") +
                         ": a step with NaN or Inf either ends the run or is left out");
  if (options.skipOutliers != 0) {
    if (!plan.takesNorm())
      return Status::error(typed("--skip-outliers") +
                           ": this binary is compiled without clipping by norm or a loss scale, so "
                           "that updates begin "
                           "before the gradients' norm is known; compile the step with "
                           "--clip-grad-norm (a norm of 1e30 changes nothing)");
    if (!options.hostSeesSteps())
      return Status::error(typed("--skip-outliers") +
                           " is for --device cpu without --loss-lag: the host looks at each step "
                           "before its updates");
  }
  if (options.findNan && plan.scalesLoss())
    return Status::error(
        "--find-nan: this binary scales its loss, so that Inf and NaN in gradients "
        "only lower the scale");
  if (options.findNan && !options.hostSeesSteps())
    return Status::error("--find-nan is for --device cpu without --loss-lag: the host looks at "
                         "what each operator computes");
  if (options.findNan && !options.trace.empty())
    return Status::error("--find-nan takes far longer than the step: " + typed("--trace") +
                         " would show nothing else");
  return {};
}

Status CommandLine::check() {
  if (options.steps && *options.steps < 1)
    return Status::error(typed("--steps") + ": expected 1 or more");
  if (options.ranks && *options.ranks < 1)
    return Status::error(typed("--ranks") + ": expected 1 or more");
  if (Status status = checkNotNegative({"--peak-tflops"}); !status.ok())
    return status;
  if (options.peakTflops != 0 && std::ranges::none_of(trainingPlans(plan.tables()), [](auto &view) {
        return view.tables().model_flops != 0;
      }))
    return Status::error(typed("--peak-tflops") +
                         ": the step of this binary has no products, convolutions or attention");
  // The upper bound keeps milliseconds within the range of a clock.
  auto isDuration = [](double seconds) { return seconds > 0 && seconds <= 1e9; };
  if (!isDuration(options.timeoutSeconds))
    return Status::error(typed("--timeout") + ": expected seconds, more than 0");
  if (!isDuration(options.connectTimeoutSeconds))
    return Status::error(typed("--connect-timeout") + ": expected seconds, more than 0");
  if (options.ranks && given("--connect-timeout"))
    return Status::error(typed("--connect-timeout") + " is for processes, but " + typed("--ranks") +
                         " runs the ranks as threads of one process");
  if (options.ranks && !options.communicator.empty() && options.communicator != "local" &&
      options.communicator != "nccl" && options.communicator != "fake")
    return Status::error(typed("--communicator") + " connects processes, but " + typed("--ranks") +
                         " runs the ranks as threads of one process");
  if (Status status = checkDevice(); !status.ok())
    return status;
  if (Status status = checkPaths(); !status.ok())
    return status;
  if (Status status = checkCheckpoints(); !status.ok())
    return status;
  if (Status status = checkTrace(); !status.ok())
    return status;
  if (Status status = checkClipping(); !status.ok())
    return status;
  if (Status status = checkEvaluation(); !status.ok())
    return status;
  if (Status status = checkLag(); !status.ok())
    return status;
  if (Status status = checkGuards(); !status.ok())
    return status;
  return checkLearningRate();
}
