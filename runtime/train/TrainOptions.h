//===- TrainOptions.h - The command line of a training binary ----*- C++ -*-===//

#ifndef FSDP_RUNTIME_TRAINOPTIONS_H
#define FSDP_RUNTIME_TRAINOPTIONS_H

#include "Status.h"
#include "comm/Communicator.h"
#include "data/BatchReader.h"
#include "executor/Executor.h"
#include "plan/PlanView.h"
#include "train/LearningRate.h"
#include "watch/Watchdog.h"

#include <optional>
#include <set>
#include <string>

namespace fsdp::rt {

struct TrainOptions {
  std::optional<unsigned> ranks;      // threads of this process
  std::vector<std::string> libraries; // with operators
  std::string collectives;            // library that runs them; "": the communicator does
  std::string device = "cpu";         // or "cuda"
  std::string communicator; // "local", "shm", "gloo", "nccl", "fake"; "": chosen at launch
  unsigned fakeRanks = 0;   // of a fake communicator
  double fakeLatencyUs = 0;
  double fakeGbPerSec = 0;         // 0: only the copies take time
  std::optional<unsigned> lossLag; // steps; default: by the device
  GraphMode graph = GraphMode::Automatic;
  bool pinMemory = true;             // memory for state and tensors on the host is pinned
  std::vector<std::string> data;     // files, or patterns of their names
  std::optional<TokenType> dataType; // of raw tokens
  std::vector<std::string> evalData; // like data; none: no evaluations
  double evalSplit = 0;              // fraction of `data` that is evaluated instead; 0: none
  uint64_t evalSplitSeed = 0;        // --seed of the run's first start
  std::optional<int64_t> evalEvery;  // updates; default: only after the last one
  std::optional<int64_t> evalSteps;  // of one evaluation; default: one pass over evalData
  bool evalAverage = false;          // of the weights' moving average
  bool shuffle = false;
  bool overfit = false;              // every step reads the first one's samples
  std::string init, save, log;       // "": not given
  std::string saveAverage;           // file of the weights' moving average; "": none
  std::string tensorboard;           // folder; "": none
  std::string checkpointDir;         // "": none
  std::optional<int64_t> saveEvery;  // steps
  bool saveInPlace = false;          // without a copy of the state
  std::optional<uint64_t> keep;      // checkpoints; default: all
  std::optional<uint64_t> keepEvery; // steps
  std::optional<std::string> resume; // "": from checkpointDir, if it has a checkpoint
  bool saveOnExit = false;           // on a signal
  std::string failureDump;           // prefix of file names; "": none
  std::string trace;                 // "": none
  std::optional<int64_t> traceStep;
  int64_t traceCount = 1;       // steps
  std::optional<int64_t> steps; // default: one pass over the data
  LearningRateShape schedule = LearningRateShape::Constant;
  double learningRate = 0; // the peak
  double minimumLearningRate = 0;
  int64_t warmupSteps = 0;
  std::optional<int64_t> decaySteps;                 // of wsd; default: a fifth of the steps
  std::optional<double> clipGradNorm, clipGradValue; // default: the plan's
  double stopOutliers = 0;                           // standard deviations; 0: no check
  double skipOutliers = 0;                           // likewise; at most one of both is set
  bool findNan = false;
  std::string operatorReport; // "": none
  uint64_t seed = 0;
  unsigned threads = 1; // per rank
  OperatorKernels kernels = OperatorKernels::Fastest;
  double timeoutSeconds = 60;
  double connectTimeoutSeconds = 60;
  double peakTflops = 0; // of a rank's device; 0: not known
  bool quiet = false;
  std::set<std::string, std::less<>> given; // flags that are on the command line

  /// Steps that may be in flight when the next one is issued.
  unsigned lag() const { return lossLag.value_or(device == "cpu" ? 0 : 1); }
  /// hostSeesSteps() of Executor.h for these options; --skip-outliers and --find-nan require it.
  bool hostSeesSteps() const { return rt::hostSeesSteps(device == "cpu", lag()); }
};

/// The shortest text that reads back to `value`.
std::string shortestNumber(double value);

/// The watchdog's limits, by --timeout.
WatchdogOptions watchdogOptions(const TrainOptions &options);

CommunicatorOptions communicatorOptions(const TrainOptions &options, const PlanView &plan);

/// What the command line asks for: a run, or a text to print.
struct TrainCommand {
  TrainOptions options;
  std::optional<std::string> textToPrint; // help, version, description
};

/// Parses the command line, and makes all checks that need no file and no peer.
/// `environmentThreads` is the value of OMP_NUM_THREADS or null. Errors are one line that names the
/// flags and their values.
Result<TrainCommand> parseTrainOptions(int argc, const char *const *argv, const PlanView &plan,
                                       const char *environmentThreads);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_TRAINOPTIONS_H
