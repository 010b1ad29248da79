//===- CommandLineFlags.cpp - The flags and their texts -------------------===//

#include "train/CommandLine.h"

#include "plan/NormType.h"

#include <charconv>

using namespace fsdp::rt;

std::string fsdp::rt::shortestNumber(double value) {
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
// Each step under way has memory for its inputs.
static constexpr uint64_t kMaximumLag = 64;

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
                 "Threads of each rank inside one operator, at most 8 for each core. Default: "
                 "OMP_NUM_THREADS, else 1")
      ->check(wholeNumber(kMaximumThreads))
      ->type_name("N")
      ->group("Launch");
  app.add_option(
         "--kernels", kernels,
         "Kernels of fp32 matrix products, attention and chains of elementwise operators. fastest: "
         "when the run starts, each is tried, and the fastest kernel that gives torch's bits is "
         "taken; torch: torch's own. Default: fastest")
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
  app.add_option("--loss-lag", options.lossLag,
                 "A step's loss is read, printed and logged when N more steps have been issued, so "
                 "that the host never waits for the step it has just issued. Default: 1 with "
                 "--device cuda, else 0")
      ->check(wholeNumber(kMaximumLag))
      ->type_name("N")
      ->group("Device");
  app.add_option("--cuda-graph", graph,
                 "auto: a step is captured once and launched as one graph where all its operators "
                 "allow it; the run says why if not. off: every step is issued piece by piece; the "
                 "numbers are the same. Default: auto")
      ->check(CLI::IsMember({"auto", "off"}).description(""))
      ->type_name("auto|off")
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
                 "Fake collectives, their copies included, take at least the time in which the "
                 "bytes arrive at this rate (1e9 bytes per second)")
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
                     shortestNumber(plan.tables().optimizer.lr) + ", as compiled")
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
  const double clip = plan.tables().clip_grad_norm;
  app.add_option("--clip-grad-norm", options.clipGradNorm,
                 "The norm to which the gradients of all parameters together are clipped. " +
                     (plan.clipsGradients()
                          ? "Default: " + shortestNumber(clip) + ", as compiled, of norm_type " +
                                normTypeName(plan.tables().clip_norm_type)
                          : std::string("Refused: this binary is compiled without clipping")))
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
                 "step_ms, samples_per_s, issue_ms")
      ->type_name("FILE.jsonl")
      ->group("Output");
  app.add_option("--trace", options.trace,
                 "Write what one step did when, on each stream of rank 0, for ui.perfetto.dev")
      ->type_name("FILE.json")
      ->group("Output");
  app.add_option("--trace-step", options.traceStep,
                 "The step that --trace is about, from 2 on. Default: the third, or the last of "
                 "two")
      ->check(wholeNumber(kMaximumSteps))
      ->type_name("N")
      ->group("Output");
  app.add_option("--failure-dump", options.failureDump,
                 "When a step fails, each rank R writes to PREFIX.rankR.txt the error and what "
                 "every stream issued, started and completed last")
      ->type_name("PREFIX")
      ->group("Output");
  app.add_flag("--quiet", options.quiet, "Print errors only")->group("Output");
}

void CommandLine::addCheckpointFlags() {
  app.add_option(
         "--checkpoint-dir", options.checkpointDir,
         "The folder of the run's checkpoints, which all ranks see: DIR/step-000000120 holds "
         "the whole state after step 120, as torch.distributed.checkpoint reads it")
      ->type_name("DIR")
      ->group("Checkpoints");
  app.add_option("--save-every", options.saveEvery,
                 "Save after every N steps, and after the last one")
      ->check(wholeNumber(kMaximumSteps))
      ->type_name("N")
      ->group("Checkpoints");
  app.add_flag("--save-on-exit", options.saveOnExit,
               "Save when SIGINT or SIGTERM stops the run, after the current step")
      ->group("Checkpoints");
  app.add_option("--keep", options.keep,
                 "Keep the last K checkpoints: an older one is removed when a new one is complete. "
                 "Default: keep all")
      ->check(wholeNumber(kMaximumSteps))
      ->type_name("K")
      ->group("Checkpoints");
  app.add_option(
         "--resume", options.resume,
         "Go on from a checkpoint, or from the last complete one of a run's folder. Without "
         "DIR: from the last one of --checkpoint-dir, and from the beginning where there is "
         "none. What no flag says is as in the checkpoint; --log goes on behind its lines")
      ->expected(0, 1)
      ->type_name("[DIR]")
      ->group("Checkpoints");
}
