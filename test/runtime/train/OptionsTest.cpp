#include "TinyPlan.h"
#include "train/Launch.h"
#include "train/TrainOptions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>

using namespace fsdp::rt;
using namespace fsdp::test;

namespace {

const TinyPlan &tinyPlan(unsigned ranks) {
  static const TinyPlan one(1, fsdp::plan::Layout::Flat), two(2, fsdp::plan::Layout::Flat);
  return ranks == 1 ? one : two;
}

Result<TrainCommand> parse(std::vector<const char *> flags, const char *threads = nullptr) {
  flags.insert(flags.begin(), "train");
  return parseTrainOptions(static_cast<int>(flags.size()), flags.data(),
                           PlanView(tinyPlan(2).tables()), threads);
}

/// The flags are refused with one line that holds all the words.
void expectRefused(const std::vector<const char *> &flags, const std::vector<std::string> &words,
                   const char *threads = nullptr) {
  Result<TrainCommand> command = parse(flags, threads);
  ASSERT_FALSE(command.ok());
  std::string message = command.status().message();
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  for (const std::string &word : words)
    EXPECT_NE(message.find(word), std::string::npos) << message << "\nlacks " << word;
}

} // namespace

TEST(TrainOptions, ReadsEveryFlag) {
  auto command = parse({"--ranks",
                        "2",
                        "--communicator",
                        "local",
                        "--data",
                        "d.bin",
                        "e.bin",
                        "--init",
                        "i.safetensors",
                        "--save",
                        "s.safetensors",
                        "--steps",
                        "9",
                        "--lr",
                        "0.5",
                        "--seed",
                        "18446744073709551615",
                        "--log",
                        "l.jsonl",
                        "--data-dtype",
                        "u16",
                        "--shuffle",
                        "--lr-schedule",
                        "cosine",
                        "--warmup-steps",
                        "3",
                        "--min-lr",
                        "0.25",
                        "--threads",
                        "4",
                        "--kernels",
                        "torch",
                        "--timeout",
                        "1.5",
                        "--loss-lag",
                        "3",
                        "--trace",
                        "t.json",
                        "--trace-step",
                        "5",
                        "--trace-count",
                        "7",
                        "--quiet"},
                       "7");
  ASSERT_TRUE(command.ok()) << command.status().message();
  const TrainOptions &options = command->options;
  EXPECT_EQ(options.ranks, 2u);
  EXPECT_EQ(options.communicator, "local");
  EXPECT_EQ(options.kernels, OperatorKernels::Torch);
  EXPECT_EQ(options.lossLag, 3u);
  EXPECT_EQ(options.trace, "t.json");
  EXPECT_EQ(options.traceStep, 5);
  EXPECT_EQ(options.traceCount, 7);
  EXPECT_EQ(options.data, (std::vector<std::string>{"d.bin", "e.bin"}));
  EXPECT_EQ(options.dataType, TokenType::U16);
  EXPECT_TRUE(options.shuffle);
  EXPECT_EQ(options.init, "i.safetensors");
  EXPECT_EQ(options.save, "s.safetensors");
  EXPECT_EQ(options.log, "l.jsonl");
  EXPECT_EQ(options.steps, 9);
  EXPECT_EQ(options.schedule, LearningRateShape::Cosine);
  EXPECT_EQ(options.learningRate, 0.5);
  EXPECT_EQ(options.minimumLearningRate, 0.25);
  EXPECT_EQ(options.warmupSteps, 3);
  EXPECT_EQ(options.seed, 18446744073709551615u);
  EXPECT_EQ(options.threads, 4u);
  EXPECT_EQ(options.timeoutSeconds, 1.5);
  EXPECT_TRUE(options.quiet);
}

TEST(TrainOptions, TakesDefaultsFromThePlanAndTheEnvironment) {
  auto command = parse({"--data", "d.safetensors"}, "3,2");
  ASSERT_TRUE(command.ok()) << command.status().message();
  EXPECT_EQ(command->options.learningRate, 0.01); // of the compiled optimizer
  EXPECT_EQ(command->options.threads, 3u);
  EXPECT_EQ(parse({"--data", "d.safetensors"})->options.threads, 1u);
  EXPECT_EQ(parse({"--data", "d.safetensors"}, "")->options.threads, 1u);
}

TEST(TrainOptions, ResumesFromAFolderOrFromTheRunsOwn) {
  auto named = parse({"--data", "d.safetensors", "--resume", "run/step-000000005", "--steps", "9"});
  ASSERT_TRUE(named.ok()) << named.status().message();
  EXPECT_EQ(named->options.resume, "run/step-000000005");
  EXPECT_TRUE(named->options.given.contains("--steps"));
  EXPECT_FALSE(named->options.given.contains("--lr"));
  for (const auto &flags : {std::vector<const char *>{"--resume", "--checkpoint-dir", "run"},
                            {"--checkpoint-dir", "run", "--resume"}}) {
    std::vector<const char *> all{"--data", "d.safetensors"};
    all.insert(all.end(), flags.begin(), flags.end());
    auto own = parse(all);
    ASSERT_TRUE(own.ok()) << own.status().message();
    EXPECT_EQ(own->options.resume, "");
    EXPECT_EQ(own->options.checkpointDir, "run");
  }
  auto saving = parse({"--data", "d.safetensors", "--checkpoint-dir", "run", "--save-every", "5",
                       "--keep", "2", "--save-on-exit"});
  ASSERT_TRUE(saving.ok()) << saving.status().message();
  EXPECT_EQ(saving->options.saveEvery, 5);
  EXPECT_EQ(saving->options.keep, 2u);
  EXPECT_TRUE(saving->options.saveOnExit);
  EXPECT_FALSE(saving->options.resume);
  for (const char *flag : {"--checkpoint-dir", "--resume"})
    expectRefused(
        {"--data", "d.safetensors", "--communicator", "fake", "--fake-ranks", "2", flag, "run"},
        {flag, "nothing worth saving"});
}

TEST(TrainOptions, PrintsTextsWithoutNeedingData) {
  auto help = parse({"-h"}), version = parse({"--version"}), description = parse({"--describe"});
  EXPECT_NE(help->textToPrint->find("--lr X"), std::string::npos);
  EXPECT_NE(help->textToPrint->find("Default: 0.01"), std::string::npos);
  EXPECT_EQ(*version->textToPrint,
            "fsdpc training binary, plan ABI " + std::to_string(FSDP_PLAN_ABI_VERSION) + "\n");
  EXPECT_NE(description->textToPrint->find("tiny"), std::string::npos);
}

// Likewise a value to clip to.
TEST(TrainOptions, ClipValues) {
  expectRefused({"--data", "d.safetensors", "--clip-grad-value", "2"},
                {"--clip-grad-value 2", "compiled without clipping by value"});
  fsdp_plan clipping = tinyPlan(2).tables();
  clipping.optimizer.clip_grad_value = 0.5;
  auto parse = [&](const char *flag, const char *limit) {
    const char *flags[] = {"train", "--data", "d.safetensors", flag, limit};
    return parseTrainOptions(5, flags, PlanView(clipping), nullptr);
  };
  EXPECT_EQ(parse("--clip-grad-value", "2.5")->options.clipGradValue, 2.5);
  for (const char *value : {"0", "-1", "inf", "nan", "1e-60", "1e300"})
    EXPECT_EQ(parse("--clip-grad-value", value).status().message(),
              std::string("--clip-grad-value ") + value +
                  ": expected a finite number above 0 (in fp32)");
  EXPECT_FALSE(parse("--clip-grad-norm", "2").ok());
  EXPECT_FALSE(parse("--skip-outliers", "3").ok());
  const char *help[] = {"train", "-h"};
  EXPECT_NE(parseTrainOptions(2, help, PlanView(clipping), nullptr)
                ->textToPrint->find("Default: 0.5, as compiled"),
            std::string::npos);
}

// A norm to clip to is for binaries that clip, and a number that gradients can be clipped to.
TEST(TrainOptions, ClipNorms) {
  expectRefused({"--data", "d.safetensors", "--clip-grad-norm", "2"},
                {"--clip-grad-norm 2", "compiled without clipping by norm"});
  fsdp_plan clipping = tinyPlan(2).tables();
  clipping.clip_grad_norm = 0.5;
  clipping.clip_norm_type = FSDP_NORM_2;
  auto parseClipping = [&](const char *norm) {
    const char *flags[] = {"train", "--data", "d.safetensors", "--clip-grad-norm", norm};
    return parseTrainOptions(5, flags, PlanView(clipping), nullptr);
  };
  EXPECT_EQ(parseClipping("2.5")->options.clipGradNorm, 2.5);
  for (const char *norm : {"0", "-1", "inf", "nan", "1e-60", "1e300"}) {
    Result<TrainCommand> command = parseClipping(norm);
    ASSERT_FALSE(command.ok()) << norm;
    EXPECT_EQ(command.status().message(), std::string("--clip-grad-norm ") + norm +
                                              ": expected a finite number above 0 (in fp32)");
  }
  const char *help[] = {"train", "-h"};
  EXPECT_NE(parseTrainOptions(2, help, PlanView(clipping), nullptr)
                ->textToPrint->find("Default: 0.5, as compiled"),
            std::string::npos);
}

// A binary without an evaluation takes back the --eval-split of a checkpoint, and nothing more.
TEST(TrainOptions, EvaluationsThatAreNotCompiled) {
  auto none = parse({"--data", "d.safetensors", "--eval-split", "0"});
  ASSERT_TRUE(none.ok()) << none.status().message();
  EXPECT_TRUE(none->options.given.contains("--eval-split"));
  for (const auto &[flag, value] : {std::pair{"--eval-split", "0.1"},
                                    {"--eval-data", "e.safetensors"},
                                    {"--eval-every", "2"},
                                    {"--eval-steps", "2"}})
    expectRefused({"--data", "d.safetensors", flag, value},
                  {std::string(flag) + " " + value + ": this binary is compiled without"});
}

// A share of the peak needs the arithmetic of the step, which this plan does not have.
TEST(TrainOptions, PeakOfAStepWithoutArithmetic) {
  expectRefused({"--data", "d.safetensors", "--peak-tflops", "3"},
                {"--peak-tflops 3: the step of this binary has no products"});
  expectRefused({"--data", "d.safetensors", "--peak-tflops", "nan"},
                {"--peak-tflops nan: expected a finite number"});
}

// --find-nan and --skip-outliers contradict each other for a step with NaN. Both need the host to
// see each step before its updates.
TEST(TrainOptions, GuardsLookAtEachStep) {
  fsdp_plan clipping = tinyPlan(2).tables();
  clipping.clip_grad_norm = 0.5;
  clipping.clip_norm_type = FSDP_NORM_2;
  auto refusal = [&](std::vector<const char *> flags) {
    flags.insert(flags.begin(), {"train", "--data", "d.safetensors"});
    return parseTrainOptions(static_cast<int>(flags.size()), flags.data(), PlanView(clipping),
                             nullptr)
        .status()
        .message();
  };
  EXPECT_EQ(refusal({"--skip-outliers", "3"}), "");
  EXPECT_EQ(refusal({"--find-nan"}), "");
  EXPECT_EQ(refusal({"--find-nan", "--skip-outliers", "0"}), "");
  EXPECT_EQ(refusal({"--find-nan", "--skip-outliers", "3"}),
            "--find-nan and --skip-outliers 3: a step with NaN or Inf either ends the run or is "
            "left out");
  for (const char *lag : {"0", "1"})
    for (const char *flag : {"--skip-outliers=3", "--find-nan"}) {
      const std::string text = refusal({flag, "--loss-lag", lag});
      EXPECT_EQ(text.find("is for --device cpu without --loss-lag") != std::string::npos,
                *lag == '1')
          << text;
    }
}

// A step with a scaled loss waits for the one before, on any device. Its updates may be left out,
// and Inf in gradients is no error.
TEST(TrainOptions, ScaledLosses) {
  fsdp_plan scaled = tinyPlan(2).tables();
  scaled.clip_norm_type = FSDP_NORM_2;
  scaled.loss_scale = {65536, 2, 0.5, 2000};
  auto parse = [&](std::vector<const char *> flags) {
    flags.insert(flags.begin(), {"train", "--data", "d.safetensors"});
    return parseTrainOptions(static_cast<int>(flags.size()), flags.data(), PlanView(scaled),
                             nullptr);
  };
  EXPECT_EQ(parse({"--device", "cuda"})->options.lag(), 0u);
  EXPECT_TRUE(parse({"--skip-outliers", "3"}).ok());
  EXPECT_TRUE(parse({"--loss-lag", "0"}).ok());
  EXPECT_EQ(parse({"--loss-lag", "2"}).status().message(),
            "--loss-lag 2: this binary scales its loss, so that each step waits for the gradients "
            "of the one before");
  EXPECT_EQ(parse({"--find-nan"}).status().message(),
            "--find-nan: this binary scales its loss, so that Inf and NaN in gradients only lower "
            "the scale");
}

TEST(TrainOptions, RefusesMalformedFlags) {
  expectRefused({"--nonsense", "3"}, {"unknown flag '--nonsense'; --help lists all"});
  expectRefused({"--save-evry=3"}, {"unknown flag '--save-evry'; did you mean --save-every?"});
  expectRefused({"--quiet", "more"}, {"unexpected argument 'more'"});
  expectRefused({"--steps", "many"}, {"--steps", "many"});
  expectRefused({"--steps"}, {"--steps"});
  expectRefused({"--steps", "1", "--steps", "2"}, {"--steps is given 2 times"});
  expectRefused({"--seed", "-1"}, {"--seed", "-1"});
  expectRefused({"--ranks", "-1"}, {"--ranks", "-1"});
  expectRefused({"--steps", "99999999999999999999"}, {"--steps", "99999999999999999999"});
  expectRefused({"--communicator", "mpi"}, {"--communicator", "mpi", "gloo"});
  expectRefused({"--kernels", "mkl"}, {"--kernels", "mkl", "torch"});
  expectRefused({"--data-dtype", "f32"}, {"--data-dtype", "f32", "u16"});
  expectRefused({"--lr-schedule", "step"}, {"--lr-schedule", "step", "cosine"});
}

TEST(TrainOptions, RefusesValuesOutOfRange) {
  expectRefused({"--data", "d.safetensors", "--steps", "0"}, {"--steps 0"});
  expectRefused({"--data", "d.safetensors", "--ranks", "0"}, {"--ranks 0"});
  expectRefused({"--data", "d.safetensors", "--lr", "-0.1"}, {"--lr -0.1"});
  expectRefused({"--data", "d.safetensors", "--lr", "nan"}, {"--lr nan"});
  expectRefused({"--data", "d.safetensors", "--stop-outliers", "-1"}, {"--stop-outliers -1"});
  expectRefused({"--data", "d.safetensors", "--timeout", "0"}, {"--timeout 0"});
  expectRefused({"--data", "d.safetensors", "--timeout", "nan"}, {"--timeout nan"});
  expectRefused({"--data", "d.safetensors", "--connect-timeout", "0"}, {"--connect-timeout 0"});
  expectRefused({"--data", "d.safetensors", "--ranks", "2", "--connect-timeout", "5"},
                {"--connect-timeout 5", "--ranks 2"});
  expectRefused({"--data", "d.safetensors", "--warmup-steps", "-2"}, {"--warmup-steps", "-2"});
  expectRefused({"--data", "d.safetensors", "--threads", "0"}, {"--threads 0"});
  expectRefused({"--data", "d.safetensors"}, {"OMP_NUM_THREADS", "'two'"}, "two");
}

// More threads than the cores can bear are refused by the name of whoever asks for them.
TEST(TrainOptions, LimitsThreadsByCores) {
  unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  std::string most = std::to_string(8 * cores), more = std::to_string(8 * cores + 1);
  EXPECT_TRUE(parse({"--data", "d.safetensors", "--threads", most.c_str()}).ok());
  expectRefused({"--data", "d.safetensors", "--threads", more.c_str()},
                {"--threads " + more, "at most " + most, " core"});
  expectRefused({"--data", "d.safetensors"}, {"OMP_NUM_THREADS", more, "at most " + most},
                more.c_str());
  fsdp_plan many = tinyPlan(2).tables();
  many.world_size = 256 * cores + 1;
  std::string ranks = std::to_string(many.world_size);
  const char *flags[] = {"train", "--data", "d.safetensors", "--ranks", ranks.c_str()};
  std::string text = parseTrainOptions(5, flags, PlanView(many), nullptr).status().message();
  EXPECT_NE(text.find("--ranks " + ranks + " with 1 thread each: " + ranks +
                      " threads, expected at most " + std::to_string(256 * cores)),
            std::string::npos)
      << text;
}

// Ranks that are threads share the memory of this machine.
TEST(TrainOptions, LimitsRanksByMemory) {
  fsdp_plan large = tinyPlan(2).tables();
  large.arena_bytes = int64_t(1) << 50;
  const char *flags[] = {"train", "--data", "d.safetensors", "--ranks", "2"};
  std::string text = parseTrainOptions(5, flags, PlanView(large), nullptr).status().message();
  EXPECT_NE(text.find("--ranks 2: 2 arenas take 2.252e+06 GB, this machine has"), std::string::npos)
      << text;
}

TEST(TrainOptions, RefusesCombinationsThatContradict) {
  expectRefused({}, {"--data"});
  expectRefused({"--data", "d.safetensors", "--data-dtype", "u8"},
                {"--data-dtype u8", "--data d.safetensors"});
  expectRefused({"--data", "d.bin", "e.safetensors", "--data-dtype", "u8"},
                {"--data-dtype u8", "--data e.safetensors"});
  expectRefused({"--data", "a.bin", "b.bin", "--log-file", "b.bin"},
                {"--data", "--log-file", "'b.bin'"});
  expectRefused({"--data", "d.bin", "--decay-steps", "3"}, {"--decay-steps 3", "wsd"});
  expectRefused({"--data", "d.bin", "--lr-schedule", "wsd", "--decay-steps", "0"},
                {"--decay-steps 0", "1 or more"});
  expectRefused({"--data", "d.safetensors", "--ranks", "2", "--communicator", "shm"},
                {"--ranks 2", "--communicator shm"});
  expectRefused({"--data", "d.safetensors", "--min-lr", "0.1"},
                {"--min-lr 0.1", "--lr-schedule constant"});
  expectRefused({"--data", "d.safetensors", "--lr-schedule", "linear", "--min-lr", "0.1"},
                {"--min-lr 0.1", "--lr 0.01"});
  expectRefused({"--data", "d.safetensors", "--init", "w.bin"}, {"--init w.bin"});
  expectRefused({"--data", "d.safetensors", "--save", "w.bin"}, {"--save w.bin"});
  expectRefused({"--data", "d.safetensors", "--save", "d.safetensors"},
                {"--save 'd.safetensors' is the file that --data reads"});
  expectRefused(
      {"--data", "d.safetensors", "--eval-data", "e.safetensors", "--save", "e.safetensors"},
      {"--save 'e.safetensors' is the file that --eval-data reads"});
  // The number of a shape is no part of the file's name.
  expectRefused({"--data", "2:d.safetensors", "--save", "d.safetensors"},
                {"--save 'd.safetensors' is the file that --data reads"});
  expectRefused({"--data", "d.bin", "--eval-data", "1:e.bin", "--log-file", "./e.bin"},
                {"--log-file './e.bin' is the file that --eval-data reads"});
  expectRefused({"--data", "d.safetensors", "--save", "s.safetensors", "--log", "s.safetensors"},
                {"--save and --log-file both write 's.safetensors'"});
  expectRefused({"--data", "d.safetensors", "--log", "l.json", "--trace", "./l.json"},
                {"--log-file and --trace both write './l.json'"});
  expectRefused({"--data", "d.safetensors", "--trace", "d.safetensors"},
                {"--trace 'd.safetensors' is the file that --data reads"});
  expectRefused({"--describe", "--steps", "3"}, {"--describe", "--steps"});
}

TEST(TrainOptions, MayOverwriteTheWeightsItReads) {
  EXPECT_TRUE(
      parse({"--data", "d.safetensors", "--init", "w.safetensors", "--save", "w.safetensors"})
          .ok());
}

namespace {

using Variables = std::map<std::string, std::string>;

Result<Launch> launch(unsigned planRanks, const TrainOptions &options,
                      const Variables &variables = {}) {
  GetEnvironment get = [&](const char *name) {
    auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  auto environment = readLaunchEnvironment(get);
  EXPECT_TRUE(environment.ok()) << environment.status().message();
  return decideLaunch(options, *environment, get, PlanView(tinyPlan(planRanks).tables()));
}

Variables twoProcesses(const Variables &more = {}) {
  Variables variables{
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}};
  variables.insert(more.begin(), more.end());
  return variables;
}

TrainOptions withRanks(unsigned ranks) {
  TrainOptions options;
  options.ranks = ranks;
  return options;
}

TrainOptions withCommunicator(const char *name) {
  TrainOptions options;
  options.communicator = name;
  return options;
}

void expectWords(const Status &status, const std::vector<std::string> &words) {
  for (const std::string &word : words)
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
}

} // namespace

TEST(Launch, ThreadsNeedAsManyRanksAsThePlan) {
  EXPECT_EQ(launch(2, withRanks(2))->backend, "local");
  EXPECT_EQ(launch(1, {})->backend, "local");
  expectWords(launch(2, withRanks(3)).status(), {"--ranks 3", "2 ranks (mesh dp=2)"});
  expectWords(launch(2, {}).status(), {"started alone", "--ranks 2", "torchrun"});
}

TEST(Launch, ProcessesOfOneHostUseSharedMemory) {
  EXPECT_EQ(launch(2, {}, twoProcesses({{"LOCAL_WORLD_SIZE", "2"}}))->backend, "shm");
  EXPECT_EQ(launch(2, {}, twoProcesses({{"LOCAL_WORLD_SIZE", "1"}}))->backend, "gloo");
  EXPECT_EQ(launch(2, {}, twoProcesses())->backend, "gloo");
  Variables variables = twoProcesses();
  variables["MASTER_ADDR"] = "localhost";
  Result<Launch> decided = launch(2, {}, variables);
  EXPECT_EQ(decided->backend, "shm");
  EXPECT_EQ(decided->environment.rank, 1u);
  EXPECT_EQ(launch(2, withCommunicator("gloo"), variables)->backend, "gloo");
}

TEST(Launch, RefusesWhatContradictsTheLauncher) {
  Variables three = twoProcesses();
  three["WORLD_SIZE"] = "3";
  expectWords(launch(2, {}, three).status(), {"started 3 processes", "2 ranks (mesh dp=2)"});
  expectWords(launch(1, {}, twoProcesses()).status(),
              {"started 2 processes", "1 rank (mesh dp=1)"});
  expectWords(launch(2, withRanks(2), twoProcesses()).status(),
              {"--ranks 2", "started 2 processes"});
  expectWords(launch(2, withCommunicator("local"), twoProcesses()).status(),
              {"--communicator local", "started 2 processes"});
  expectWords(launch(1, withCommunicator("gloo")).status(),
              {"--communicator gloo", "RANK and WORLD_SIZE"});
  Variables one{{"RANK", "0"}, {"WORLD_SIZE", "1"}};
  expectWords(launch(2, {}, one).status(), {"started 1 process,", "2 ranks"});
}

TEST(Launch, ALauncherOfOneProcessMayRunThreads) {
  Variables one{{"RANK", "0"}, {"WORLD_SIZE", "1"}};
  EXPECT_EQ(launch(2, withRanks(2), one)->backend, "local");
  EXPECT_EQ(launch(1, {}, one)->backend, "local");
}
