//===- StepLog.h - A JSON line per step --------------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_STEPLOG_H
#define FSDP_RUNTIME_STEPLOG_H

#include "train/CheckpointSaver.h"
#include "train/Checkpoints.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fsdp::rt {

/// Figures of a step, over all ranks.
struct StepRecord {
  int64_t step = 0; // from 1
  double loss = 0;  // mean over ranks, summed in rank order
  std::span<const double> rankLosses;
  double gradientNorm = 0;
  double learningRate = 0;
  double milliseconds = 0;
  double samplesPerSecond = 0;
  double issueMilliseconds = 0; // of the step issued last, on rank 0's host
  int64_t samples = 0;          // read up to this step, since the first start of the run
  int64_t tokensPerSample = 0;  // 0: the data are not tokens
  int64_t stepSamples = 0;      // of this step
  size_t shape = 0;             // of its samples, from 1; 0: the run has one shape
  bool skipped = false;         // it has no update
  double lossScale = 0;         // 0: the loss is not scaled
  double modelFlops = 0;        // of the step on one rank, without recomputation
  // Lower bound of the step's time, in the compiler's cost model; 0: not known.
  double boundMilliseconds = 0;
  double peakTflops = 0;        // of a rank's device; 0: not known

  /// Rate of one rank.
  double tflopsPerSecond() const { return modelFlops / milliseconds / 1e9; }
  double tokensPerSecond() const { return samplesPerSecond * static_cast<double>(tokensPerSample); }
};

/// The line, with its newline, in place of `line`: {"step", "loss", "loss_hex", "grad_norm", "lr",
/// "step_ms", "samples_per_s", "issue_ms", "samples"} and, for tokens, {"tokens", "tokens_per_s"},
/// if the plan has its FLOPs {"tflops_per_s"} and, if the peak is known, {"mfu"}, if the plan has a
/// lower bound {"over_bound"}: step_ms divided by the bound, in a run with several shapes
/// {"shape"}, of a scaled loss {"loss_scale"}, for a step without update {"skipped": true}. Numbers
/// read back to the same bits; a number that is not finite is null. loss_hex holds each rank's loss
/// as Python's float.hex writes it; for more than 16 ranks, loss_min and loss_max replace it.
void formatStep(const StepRecord &record, std::string &line);

/// Figures of an evaluation, over all ranks.
struct EvaluationRecord {
  int64_t step = 0; // updates before it
  double loss = 0;  // mean over steps and ranks
  std::span<const double> rankLosses;
  bool isOfAverage = false; // of the weights' moving average
  bool isOfTokens = false; // the loss is a cross-entropy per token: its exponential is a perplexity
  int64_t samples = 0;
  double milliseconds = 0;
};

/// The file of --log. Move-only.
class StepLog {
public:
  StepLog() = default;
  StepLog(StepLog &&other) noexcept;
  StepLog &operator=(StepLog &&other) noexcept;
  ~StepLog();

  /// Creates the file. An existing file is truncated, or with `append` continued on a new line.
  /// Errors name the path.
  static Result<StepLog> open(const std::string &path, bool append = false);
  /// Writes the step's line at once. Without a file: nothing.
  Status write(const StepRecord &record);
  /// The same for an evaluation: {"step", "eval_loss", "loss_hex" as above, "eval_samples",
  /// "eval_ms"}, for tokens {"perplexity"}, and of the weights' moving average {"ema": true}.
  Status write(const EvaluationRecord &record);
  /// The same for a checkpoint: {"step", "checkpoint": path, "bytes", "save_ms", "exposed_ms"}.
  Status write(const SavedCheckpoint &saved);
  /// The same for the checkpoint that the run is resumed from: {"step", "resumed": path, "bytes",
  /// "load_ms"}.
  Status write(const ReadCheckpoint &read);

private:
  Status failed() const;
  Status write(std::string_view text);
  /// Ends a last line that a killed run has left unfinished.
  Status endLastLine();

  int descriptor = -1;
  std::string path, line;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_STEPLOG_H
