//===- TrainOptions.cpp - The command line of a training binary -----------===//

#include "train/TrainOptions.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

using namespace fsdp::rt;

static const std::map<std::string, TokenType> kTokenTypes{{"u8", TokenType::U8},
                                                          {"u16", TokenType::U16},
                                                          {"i32", TokenType::I32},
                                                          {"i64", TokenType::I64}};
static const std::map<std::string, LearningRateShape> kShapes{
    {"constant", LearningRateShape::Constant},
    {"linear", LearningRateShape::Linear},
    {"cosine", LearningRateShape::Cosine}};

namespace {

/// The flags as CLI11 knows them: their texts, which were given, and with what words.
class CommandLine {
public:
  CommandLine(const PlanView &plan, const char *program);
  Result<TrainCommand> parse(int argc, const char *const *argv, const char *environmentThreads);

private:
  void addLaunchFlags();
  void addDeviceFlags();
  void addDataFlags();
  void addOptimizationFlags();
  void addOutputFlags();
  Status check();
  Status checkDevice();
  Status checkFake();
  Status checkPaths();
  Status checkLearningRate();
  Status setThreads(const char *environmentThreads);
  bool given(const char *flag) { return app.get_option(flag)->count() != 0; }
  /// "--flag value" as typed, for messages.
  std::string typed(const char *flag) { return flag + (" " + app[flag]->as<std::string>()); }

  const PlanView &plan;
  CLI::App app;
  TrainOptions options;
  std::string dataType, shape = "constant", gemm = "fastest";
  bool describe = false;
};

} // namespace

static std::string number(double value) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return {text, end};
}

/// A whole number from 0 to `maximum`; CLI11's own conversion wraps negative numbers around.
static CLI::Validator wholeNumber(uint64_t maximum) {
  return CLI::Validator(
      [maximum](const std::string &text) -> std::string {
        uint64_t value = 0;
        const char *end = text.data() + text.size();
        auto [stop, error] = std::from_chars(text.data(), end, value);
        if (error == std::errc() && stop == end && value <= maximum)
          return "";
        return "'" + text + "' is not a whole number from 0 to " + std::to_string(maximum);
      },
      "");
}

// Keeps a step's sample numbers far from the limits of 64 bits.
static constexpr uint64_t kMaximumSteps = 1'000'000'000'000;
static constexpr uint64_t kMaximumThreads = 100'000;

/// Breaks a help text into lines; CLI11 indents them.
static std::string wrapped(const std::string &text) {
  constexpr size_t kColumns = 68;
  std::string result;
  size_t begin = 0;
  while (text.size() - begin > kColumns) {
    size_t space = text.rfind(' ', begin + kColumns);
    result += text.substr(begin, space - begin) + '\n';
    begin = space + 1;
  }
  return result + text.substr(begin);
}

CommandLine::CommandLine(const PlanView &plan, const char *program)
    : plan(plan), app("Trains " + std::string(plan.string(plan.tables().model)) + " on " +
                          std::to_string(plan.tables().world_size) +
                          (plan.tables().world_size == 1 ? " rank." : " ranks."),
                      program) {
  options.learningRate = plan.tables().optimizer.lr;
  app.set_version_flag("--version",
                       "fsdpc training binary, plan ABI " + std::to_string(FSDP_PLAN_ABI_VERSION));
  app.add_flag("--describe", describe,
               "Print what this binary holds (model, mesh, groups, collectives, memory) and exit");
  addLaunchFlags();
  addDeviceFlags();
  addDataFlags();
  addOptimizationFlags();
  addOutputFlags();
  for (CLI::Option *option : app.get_options())
    option->description(wrapped(option->get_description()));
}

void CommandLine::addLaunchFlags() {
  std::string ranks = std::to_string(plan.tables().world_size);
  app.add_option("--ranks", options.ranks,
                 "Run all ranks as threads of this process; N must be " + ranks +
                     ". Default: one rank per process, from the environment of torchrun, mpirun, "
                     "srun, or RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT")
      ->check(wholeNumber(kMaximumThreads))
      ->type_name("N")
      ->group("Launch");
  app.add_option(
         "--communicator", options.communicator,
         "local: threads of this process; shm: processes on one host; gloo: processes "
         "on any hosts; nccl: CUDA devices; fake: no peers, see --fake-ranks. Default: nccl "
         "with --device cuda, else local with --ranks, shm when all ranks share a host, "
         "else gloo")
      ->check(CLI::IsMember({"local", "shm", "gloo", "nccl", "fake"}).description(""))
      ->type_name("local|shm|gloo|nccl|fake")
      ->group("Launch");
  app.add_option("--threads", options.threads,
                 "Threads of each rank inside one operator. Default: OMP_NUM_THREADS, else 1")
      ->check(wholeNumber(kMaximumThreads))
      ->type_name("N")
      ->group("Launch");
  app.add_option("--gemm", gemm,
                 "Kernels of fp32 matrix products. fastest: when the run starts, each product is "
                 "measured, and the fastest kernel that gives torch's bits is taken; torch: "
                 "torch's own. Default: fastest")
      ->check(CLI::IsMember({"fastest", "torch"}).description(""))
      ->type_name("fastest|torch")
      ->group("Launch");
  app.add_option("--connect-timeout", options.connectTimeoutSeconds,
                 "Seconds to wait at the start until all processes have come. Default: 60")
      ->type_name("SECONDS")
      ->group("Launch");
  app.add_option("--timeout", options.timeoutSeconds,
                 "Seconds after which, once all have come, an unanswered collective is an error "
                 "on every rank. Default: 60")
      ->type_name("SECONDS")
      ->group("Launch");
}

void CommandLine::addDeviceFlags() {
  app.add_option("--device", options.device,
                 "cpu, or cuda: one device per rank, by its number on the host. Default: cpu")
      ->check(CLI::IsMember({"cpu", "cuda"}).description(""))
      ->type_name("cpu|cuda")
      ->group("Device");
  app.add_flag("--copy-engine-gathers", options.copyEngineGathers,
               "Gather by the devices' copy engines instead of kernels, with nccl on one host; "
               "refused where NCCL cannot")
      ->group("Device");
  app.add_option("--fake-ranks", options.fakeRanks,
                 "With --communicator fake: this process alone acts as rank 0 of N ranks, for "
                 "measurements; what it trains is worth nothing. N must be " +
                     std::to_string(plan.tables().world_size) +
                     ". Collectives copy the bytes that would arrive, on the device")
      ->check(wholeNumber(kMaximumThreads))
      ->type_name("N")
      ->group("Device");
  app.add_option("--fake-gb-per-s", options.fakeGbPerSec,
                 "Fake collectives take the time in which the bytes arrive at this rate (1e9 bytes "
                 "per second), instead of copying")
      ->type_name("X")
      ->group("Device");
  app.add_option("--fake-latency-us", options.fakeLatencyUs,
                 "Microseconds that are added to each of them. Default: 0")
      ->type_name("X")
      ->group("Device");
}

void CommandLine::addDataFlags() {
  app.add_option("--data", options.data,
                 "A safetensors file with one tensor per input (first dimension: samples), or "
                 "raw tokens, see --data-dtype. Rank r of W reads samples (t*W + r)*B to +B-1 "
                 "at step t (from 0), from the start again after the end")
      ->type_name("FILE")
      ->group("Data");
  app.add_option("--data-dtype", dataType,
                 "FILE holds raw little-endian tokens of type u8, u16, i32 or i64: a sample is a "
                 "window of T+1 tokens, the first T for the first input and the last T for "
                 "the second; windows begin every T tokens")
      ->check(CLI::IsMember({"u8", "u16", "i32", "i64"}).description(""))
      ->type_name("u8|u16|i32|i64")
      ->group("Data");
  app.add_flag("--shuffle", options.shuffle,
               "Permute the samples by --seed, anew in each pass. Default: file order")
      ->group("Data");
  app.add_option("--init", options.init,
                 "Initial weights: full tensors by qualified name, parameters and buffers. "
                 "Default: the binary's own path with .safetensors appended")
      ->type_name("FILE.safetensors")
      ->group("Data");
}

void CommandLine::addOptimizationFlags() {
  app.add_option("--steps", options.steps, "Optimizer updates. Default: one pass over the data")
      ->check(wholeNumber(kMaximumSteps))
      ->type_name("N")
      ->group("Optimization");
  app.add_option("--lr", options.learningRate,
                 "Learning rate, the highest of a schedule. Default: " +
                     number(plan.tables().optimizer.lr) + ", as compiled")
      ->type_name("X")
      ->group("Optimization");
  app.add_option("--lr-schedule", shape,
                 "constant, linear or cosine: how the rate falls from --lr after the warm-up to "
                 "--min-lr at the last step. Default: constant")
      ->check(CLI::IsMember({"constant", "linear", "cosine"}).description(""))
      ->type_name("constant|linear|cosine")
      ->group("Optimization");
  app.add_option("--warmup-steps", options.warmupSteps,
                 "Steps of linear warm-up from 0: step t has --lr * t / N. Default: 0")
      ->check(wholeNumber(kMaximumSteps))
      ->type_name("N")
      ->group("Optimization");
  app.add_option("--min-lr", options.minimumLearningRate,
                 "Learning rate of the last step of a linear or cosine schedule. Default: 0")
      ->type_name("X")
      ->group("Optimization");
  app.add_option("--seed", options.seed,
                 "Seed of dropout and other random operators, and of --shuffle. Default: 0")
      ->check(wholeNumber(UINT64_MAX))
      ->type_name("N")
      ->group("Optimization");
}

void CommandLine::addOutputFlags() {
  app.add_option("--save", options.save,
                 "Write the full weights after the last step, or after SIGINT or SIGTERM, which "
                 "stop the run after the current step")
      ->type_name("FILE.safetensors")
      ->group("Output");
  app.add_option("--log", options.log,
                 "Write a JSON line per step: step, loss, loss_hex (per rank), grad_norm, lr, "
                 "step_ms, samples_per_s")
      ->type_name("FILE.jsonl")
      ->group("Output");
  app.add_option("--failure-dump", options.failureDump,
                 "When a step fails, each rank R writes to PREFIX.rankR.txt the error and what "
                 "every stream issued, started and completed last")
      ->type_name("PREFIX")
      ->group("Output");
  app.add_flag("--quiet", options.quiet, "Print errors only")->group("Output");
}

Status CommandLine::setThreads(const char *environmentThreads) {
  if (given("--threads")) {
    if (options.threads == 0)
      return Status::error("--threads 0: at least 1 thread is needed");
    return {};
  }
  if (!environmentThreads || !*environmentThreads)
    return {};
  // OpenMP allows a list, one number per nesting level.
  const char *end = environmentThreads + std::strcspn(environmentThreads, ",");
  auto [stop, error] = std::from_chars(environmentThreads, end, options.threads);
  if (error != std::errc() || stop != end || options.threads == 0)
    return Status::error("OMP_NUM_THREADS is '" + std::string(environmentThreads) +
                         "', expected a positive number");
  return {};
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
  if (options.copyEngineGathers && (!cuda || options.communicator == "fake"))
    return Status::error("--copy-engine-gathers is for --communicator nccl");
  return checkFake();
}

Status CommandLine::checkFake() {
  bool fake = options.communicator == "fake";
  for (const char *flag : {"--fake-ranks", "--fake-gb-per-s", "--fake-latency-us"})
    if (given(flag) && !fake)
      return Status::error(typed(flag) + " is for --communicator fake");
  if (!fake)
    return {};
  if (options.fakeRanks != plan.tables().world_size)
    return Status::error(
        (given("--fake-ranks") ? typed("--fake-ranks") : std::string("no --fake-ranks")) +
        ", but this binary is compiled for " + std::to_string(plan.tables().world_size) + " ranks");
  for (const char *flag : {"--fake-gb-per-s", "--fake-latency-us"})
    if (given(flag) && !(std::isfinite(app[flag]->as<double>()) && app[flag]->as<double>() > 0))
      return Status::error(typed(flag) + ": expected a finite number above 0");
  if (given("--fake-latency-us") && !given("--fake-gb-per-s"))
    return Status::error(typed("--fake-latency-us") +
                         " belongs to the delays of --fake-gb-per-s: without it collectives copy");
  if (options.ranks)
    return Status::error("--communicator fake needs no other ranks, but " + typed("--ranks") +
                         " runs all of them as threads");
  if (given("--save"))
    return Status::error(typed("--save") + ": a fake run has nothing worth saving");
  return {};
}

Status CommandLine::checkPaths() {
  if (options.data.empty())
    return Status::error("--data FILE is needed: the samples to train on");
  bool tensors = options.data.ends_with(".safetensors");
  if (tensors && options.dataType)
    return Status::error(typed("--data-dtype") + " describes raw tokens, but --data " +
                         options.data + " names a safetensors file");
  if (!tensors && !options.dataType)
    return Status::error("--data " + options.data +
                         " is not a .safetensors file: raw tokens need --data-dtype "
                         "u8, u16, i32 or i64");
  for (const char *flag : {"--init", "--save"})
    if (given(flag) && !app[flag]->as<std::string>().ends_with(".safetensors"))
      return Status::error(typed(flag) + ": the name must end with .safetensors");
  for (const char *output : {"--save", "--log"})
    for (const char *other : {"--data", "--init", "--log"})
      if (std::strcmp(output, other) != 0 && given(output) && given(other) &&
          app[output]->as<std::string>() == app[other]->as<std::string>() &&
          !(std::strcmp(output, "--save") == 0 && std::strcmp(other, "--init") == 0))
        return Status::error(typed(output) + " would overwrite " + typed(other));
  return {};
}

Status CommandLine::checkLearningRate() {
  for (const char *flag : {"--lr", "--min-lr"})
    if (given(flag)) {
      auto value = app[flag]->as<double>();
      if (!std::isfinite(value) || value < 0)
        return Status::error(typed(flag) + ": expected a finite number, 0 or more");
    }
  if (given("--min-lr")) {
    if (options.schedule == LearningRateShape::Constant)
      return Status::error(typed("--min-lr") + " has no effect with --lr-schedule constant");
    if (options.minimumLearningRate > options.learningRate)
      return Status::error(typed("--min-lr") + " is above --lr " + number(options.learningRate));
  }
  return {};
}

Status CommandLine::check() {
  if (options.steps && *options.steps < 1)
    return Status::error(typed("--steps") + ": expected 1 or more");
  if (options.ranks && *options.ranks < 1)
    return Status::error(typed("--ranks") + ": expected 1 or more");
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
  return checkLearningRate();
}

Result<TrainCommand> CommandLine::parse(int argc, const char *const *argv,
                                        const char *environmentThreads) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    return TrainCommand{{}, app.help()};
  } catch (const CLI::CallForVersion &version) {
    return TrainCommand{{}, std::string(version.what()) + "\n"};
  } catch (const CLI::ParseError &error) {
    return Status::error(error.what());
  }
  if (describe) {
    for (const CLI::Option *option : app.parse_order())
      if (option->get_name() != "--describe")
        return Status::error("--describe prints and exits: " + option->get_name() +
                             " has no effect beside it");
    return TrainCommand{{}, describePlan(plan.tables())};
  }
  if (!dataType.empty())
    options.dataType = kTokenTypes.at(dataType);
  options.schedule = kShapes.at(shape);
  options.gemm = gemm == "torch" ? GemmKernels::Torch : GemmKernels::Fastest;
  if (Status status = check(); !status.ok())
    return status;
  if (Status status = setThreads(environmentThreads); !status.ok())
    return status;
  return TrainCommand{options, std::nullopt};
}

Result<TrainCommand> fsdp::rt::parseTrainOptions(int argc, const char *const *argv,
                                                 const PlanView &plan,
                                                 const char *environmentThreads) {
  return CommandLine(plan, argc > 0 ? argv[0] : "train").parse(argc, argv, environmentThreads);
}

CommunicatorOptions fsdp::rt::communicatorOptions(const TrainOptions &options) {
  auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(std::max<int64_t>(1, static_cast<int64_t>(seconds * 1000)));
  };
  CommunicatorOptions result;
  result.deadline = milliseconds(options.timeoutSeconds);
  result.connectTimeout = milliseconds(options.connectTimeoutSeconds);
  return result;
}
