//===- CommandLineFlags.cpp - The flags and their help texts --------------===//

#include "plan/NormType.h"
#include "plan/ProgramPlans.h"
#include "train/CommandLine.h"
#include "train/FlagGroup.h"

#include <charconv>

using namespace fsdp::rt;

std::string fsdp::rt::shortestNumber(double value) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return {text, end};
}

// Keeps a step's sample numbers far from the limits of 64 bits.
static constexpr uint64_t kMaximumSteps = 1'000'000'000'000;
static constexpr uint64_t kMaximumTracedSteps = 1000; // their times are in memory
static constexpr uint64_t kMaximumThreads = 100'000;
// Each step in flight has memory for its inputs.
static constexpr uint64_t kMaximumLag = 64;

void CommandLine::addLaunchFlags() {
  FlagGroup group(app, "Launch");
  std::string ranks = std::to_string(plan.tables().world_size);
  group.whole("--ranks", options.ranks, "N", kMaximumThreads,
              "Run all ranks as threads of this process; N must be " + ranks +
                  ". Default: one rank per process, from the environment of torchrun, mpirun, "
                  "srun, or RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT");
  group.choice("--communicator", options.communicator, "local|shm|gloo|nccl|fake",
               "local: threads of this process; shm: processes on one host; gloo: processes "
               "on any hosts; nccl: CUDA devices; fake: no peers, see --fake-ranks. Default: nccl "
               "with --device cuda, else local with --ranks, shm when all ranks share a host, "
               "else gloo");
  group.whole("--threads", options.threads, "N", kMaximumThreads,
              "Threads of each rank inside one operator, at most 8 for each core. Default: "
              "OMP_NUM_THREADS, else 1");
  group.choice("--kernels", kernels, "fastest|torch",
               "Kernels of fp32 matrix products and attention. fastest: when the run starts, each "
               "is tried, and the fastest kernel that gives torch's bits is taken; torch: torch's "
               "own. Default: fastest");
  group
      .value("--load-library", options.libraries, "LIB.so",
             "A shared library with operators of the model that torch does not have, as fsdpc was "
             "given it. Once for each library")
      ->allow_extra_args(false)
      ->check(CLI::ExistingFile.description(""));
  group
      .value("--collectives", options.collectives, "LIB.so",
             "A shared library that runs gathers and reductions in place of the communicator "
             "(fsdp/Plan/CollectivesAbi.h)")
      ->check(CLI::ExistingFile.description(""));
  group.value("--connect-timeout", options.connectTimeoutSeconds, "SECONDS",
              "Seconds to wait at the start until all processes have come. Default: 60");
  group.value("--timeout", options.timeoutSeconds, "SECONDS",
              "Seconds after which a collective that some rank does not join is an error on every "
              "rank. Default: 60");
}

void CommandLine::addDeviceFlags() {
  FlagGroup group(app, "Device");
  group.choice("--device", options.device, "cpu|cuda",
               "cpu, or cuda: one device per rank, by its number on the host. Default: cpu");
  group.whole("--loss-lag", options.lossLag, "N", kMaximumLag,
              "A step's loss is read, printed and logged when N more steps have been issued, so "
              "that the host never waits for the step it has just issued. Default: 1 with "
              "--device cuda, else 0");
  group.choice(
      "--cuda-graph", graph, "auto|on|off",
      "on: a step is captured once and launched as one graph where all its operators allow it, on "
      "all ranks or none; the run says why if not. off: every operation of a step is launched by "
      "itself; results are the same. auto: off for --ranks above 1, else on. Default: auto");
  group.choice("--pin-memory", pinMemory, "on|off",
               "off: offloaded tensors are in pageable host memory, which a device copies more "
               "slowly, and steps are not captured as graphs. Default: on");
  group.whole("--fake-ranks", options.fakeRanks, "N", kMaximumThreads,
              "With --communicator fake: this process alone acts as rank 0 of N ranks, for "
              "measurements; its losses and weights mean nothing. N must be " +
                  std::to_string(plan.tables().world_size) +
                  ". Collectives copy the bytes that would arrive, on the device");
  group.value("--fake-gb-per-s", options.fakeGbPerSec, "X",
              "Fake collectives, their copies included, take at least the time in which the "
              "bytes arrive at this rate (1e9 bytes per second)");
  group.value("--fake-latency-us", options.fakeLatencyUs, "X",
              "Microseconds that are added to each fake collective. Default: 0");
}

void CommandLine::addDataFlags() {
  FlagGroup group(app, "Data");
  const size_t shapes = trainingPlans(plan.tables()).size();
  const size_t evaluations = evaluationPlans(plan.tables()).size();
  group.value("--data", options.data, "FILE",
              "One or more files, or quoted patterns ('shard-*.bin'): safetensors with one tensor "
              "per input (first dimension: samples), or raw tokens, where a sample is a window of "
              "T+1 tokens: the first T are the first input, the last T the second; windows begin "
              "every T tokens. Rank r of W reads samples (t*W + r)*B to +B-1 at step t (from 0), "
              "from the start again after the end" +
                  (shapes == 1 ? std::string()
                               : ". This binary has " + std::to_string(shapes) +
                                     " shapes of samples: a safetensors file has samples of one "
                                     "shape, and a file of tokens is cut into samples of the shape "
                                     "whose number precedes it, as 2:FILE; a pass has a step for "
                                     "each batch of each shape, those of the first shape first"));
  group.choice("--data-dtype", dataType, "u8|u16|u32|i32|i64",
               "The files hold raw little-endian tokens of this type, as nanoGPT's do (u16). "
               "llm.c's files name it in their header");
  group.flag("--shuffle", options.shuffle,
             shapes == 1 ? "Permute the samples by --seed, anew in each pass. Default: file order"
                         : "Permute the samples of each shape, and the steps, by --seed, anew in "
                           "each pass. Default: file order, shape by shape");
  group.flag("--overfit", options.overfit,
             "Every step reads the samples of the first one, to see whether the model can learn "
             "them");
  group.value("--eval-data", options.evalData, "FILE",
              evaluations != 0
                  ? "Files as for --data, on which the loss is evaluated, in file order" +
                        (evaluations == 1 ? std::string()
                                          : "; for each of the " + std::to_string(evaluations) +
                                                " shapes of evaluations at least one")
                  : "Refused: this binary is compiled without an evaluation (fsdpc --eval-model)");
  group.value("--eval-split", options.evalSplit, "F",
              evaluations != 0
                  ? "Hold out this fraction of the samples of --data, above 0 and at most 0.5, and "
                    "evaluate the loss on them. They are drawn from all files, and the draw "
                    "depends only on --seed of the run's first start. 0: none. Default: 0"
                  : "0: none. Other values are refused: this binary is compiled without an "
                    "evaluation (fsdpc --eval-model)");
  group.whole("--eval-every", options.evalEvery, "N", kMaximumSteps,
              "Evaluate after every N steps, and after the last one. Default: after the last one");
  group.whole("--eval-steps", options.evalSteps, "N", kMaximumSteps,
              "Batches of each shape in an evaluation. Default: all full batches");
  group.flag("--eval-ema", options.evalAverage,
             "Evaluate the moving average of the weights (fsdpc --ema-decay) instead of the "
             "weights");
  group.value("--init", options.init, "FILE.safetensors",
              "Initial weights: full tensors by qualified name, parameters and buffers, in one "
              "file or in those of a model.safetensors.index.json. "
              "Default: the binary's own path with .safetensors appended");
}

void CommandLine::addOptimizationFlags() {
  FlagGroup group(app, "Optimization");
  group.whole("--steps", options.steps, "N", kMaximumSteps,
              "Optimizer updates. Default: one pass over the data");
  group.value("--lr", options.learningRate, "X",
              "Learning rate, the highest of a schedule. Default: " +
                  shortestNumber(plan.tables().optimizer.lr) + ", as compiled");
  group.choice("--lr-schedule", shape, "constant|linear|cosine|wsd",
               "How the rate falls from --lr after the warm-up to --min-lr at the last step. wsd "
               "(warm-up, stable, decay): constant until --decay-steps before the last step, then "
               "linear. Default: constant");
  group.whole("--warmup-steps", options.warmupSteps, "N", kMaximumSteps,
              "Steps of linear warm-up from 0: step t has --lr * t / N. Default: 0");
  group.whole("--decay-steps", options.decaySteps, "N", kMaximumSteps,
              "Steps at the end in which the rate of --lr-schedule wsd falls. Default: a fifth of "
              "--steps");
  group.value("--min-lr", options.minimumLearningRate, "X",
              "Learning rate of the last step of a schedule that falls. Default: 0");
  const double clip = plan.tables().clip_grad_norm;
  group.value("--clip-grad-norm", options.clipGradNorm, "X",
              "The norm to which the gradients of all parameters together are clipped. " +
                  (plan.clipsGradients()
                       ? "Default: " + shortestNumber(clip) + ", as compiled, of norm_type " +
                             normTypeName(plan.tables().clip_norm_type)
                       : std::string("Refused: this binary is compiled without clipping by norm")));
  group.value(
      "--clip-grad-value", options.clipGradValue, "X",
      "The value to which each element of the gradients is clipped. " +
          (plan.clipsValues()
               ? "Default: " + shortestNumber(plan.tables().optimizer.clip_grad_value) +
                     ", as compiled"
               : std::string("Refused: this binary is compiled without clipping by value")));
  group.value(
      "--stop-outliers", options.stopOutliers, "Z",
      "End with an error after a step whose loss or gradient norm is not finite, or more than Z "
      "standard deviations above the mean of the 128 steps before it. 0: never. Default: 0");
  group.value(
      "--skip-outliers", options.skipOutliers, "Z",
      "After a step as in --stop-outliers go on, but without its update: parameters and optimizer "
      "state stay as they were. The step has to be compiled with clipping by norm or a loss scale. "
      "0: never. "
      "Default: 0");
  group.flag("--find-nan", options.findNan,
             "Check the results of each operator, which is slow: a step whose loss, gradients or "
             "updated parameters are not finite ends the run, and the error names the operator, "
             "its module and the rank where NaN or Inf begins. With --resume a step that failed "
             "runs again. Not with --skip-outliers");
  group.whole("--seed", options.seed, "N", UINT64_MAX,
              "Seed of dropout and other random operators, and of --shuffle. Default: 0");
}

void CommandLine::addOutputFlags() {
  FlagGroup group(app, "Output");
  group.value("--save", options.save, "FILE.safetensors",
              "Write the full weights after the last step, or after SIGINT or SIGTERM, which "
              "stop the run after the current step");
  group.value("--save-ema", options.saveAverage, "FILE.safetensors",
              "Likewise the moving average of the weights (fsdpc --ema-decay), with the model's "
              "buffers");
  group.value("--log-file,--log", options.log, "FILE.jsonl",
              "Write a JSON line per step: step, loss, loss_hex (per rank, of up to 16), "
              "grad_norm, lr, step_ms, samples_per_s, issue_ms, samples, tokens, tokens_per_s, "
              "tflops_per_s, mfu, "
              "over_bound; and one per checkpoint. torchrun takes --log for a flag of its own");
  group.value("--tensorboard", options.tensorboard, "DIR",
              "Write loss, gradient norm, learning rate and speed of each step to an event file of "
              "TensorBoard in DIR");
  group.value("--peak-tflops", options.peakTflops, "X",
              "Peak of a rank's device, in 10^12 floating-point operations per second in the dtype "
              "of the model's matrix products, for the model's FLOPs utilization (MFU)");
  group.value("--trace", options.trace, "FILE.json",
              "Write the timeline of a step, for each stream of rank 0, for ui.perfetto.dev");
  group.whole("--trace-step", options.traceStep, "N", kMaximumSteps,
              "The step that --trace records, 2 or later. Default: the third, or the last of two");
  group.whole("--trace-count", options.traceCount, "N", kMaximumTracedSteps,
              "Steps that --trace records, from that step on. Default: 1");
  group.value("--failure-dump", options.failureDump, "PREFIX",
              "When a step fails, each rank R writes to PREFIX.rankR.txt the error and what "
              "every stream issued, started and completed last");
  group.value(
      "--operator-report", options.operatorReport, "FILE",
      "Write how the operators of this device differ from the plan, on rank 0, as JSON lines: "
      "failures (all of the first step, after which the run ends), results copied for their "
      "strides, allocations without a planned address, and why steps are not captured as a graph");
  group.flag("--quiet", options.quiet, "Print errors only");
}

void CommandLine::addCheckpointFlags() {
  FlagGroup group(app, "Checkpoints");
  group.value("--checkpoint-dir", options.checkpointDir, "DIR",
              "The folder of the run's checkpoints, which all ranks see: DIR/step-000000120 holds "
              "the whole state after step 120, as torch.distributed.checkpoint reads it");
  group.whole("--save-every", options.saveEvery, "N", kMaximumSteps,
              "Save after every N steps, and after the last one. Steps go on while a copy of the "
              "state is written");
  group.flag("--save-on-exit", options.saveOnExit,
             "Save when SIGINT or SIGTERM stops the run, after the current step");
  group.flag("--save-in-place", options.saveInPlace,
             "Write without a copy of the state: less memory, but steps wait until it is written");
  group.whole("--keep", options.keep, "K", kMaximumSteps,
              "Keep the last K checkpoints: an older one is removed when a new one is complete. "
              "Default: keep all");
  group.whole("--keep-every", options.keepEvery, "M", kMaximumSteps,
              "With --keep: also keep the checkpoints of steps that are multiples of M");
  group
      .value(
          "--resume", options.resume, "[DIR]",
          "Go on from a checkpoint, or from the last complete one of a run's folder. Without DIR: "
          "from the last one of --checkpoint-dir, and from the beginning where there is none. "
          "Options that no flag sets are those of the checkpoint; --log-file is appended to")
      ->expected(0, 1);
}
