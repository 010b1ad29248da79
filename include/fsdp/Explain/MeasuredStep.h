//===- MeasuredStep.h - Measured and predicted steps ------------*- C++ -*-===//
//
// A training binary writes the timelines of steps with --trace, in the format of Trace.h. These
// functions read them and compare them with the simulated step of the binary's schedule.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EXPLAIN_MEASUREDSTEP_H
#define FSDP_EXPLAIN_MEASUREDSTEP_H

#include "fsdp/Explain/ScheduleView.h"
#include "fsdp/Schedule/Problem.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>

namespace fsdp::explain {

/// Times in nanoseconds, from the beginning of the step.
struct MeasuredSlice {
  double startNs = 0, durationNs = 0;
  schedule::Interval getInterval() const { return {startNs, startNs + durationNs}; }
};

struct MeasuredOperation : MeasuredSlice {
  std::string module; // path; "" is the root
  std::string name;   // "mm.default"
  StepPart part = StepPart::Forward;
  /// The compute stream's time before the operation, since the end of the operation before it,
  /// without waits for collectives.
  double beforeNs = 0;
  std::optional<int64_t> entry = std::nullopt; // its number in the plan; none in a simulated step
};

struct MeasuredCollective : MeasuredSlice {
  std::string name;     // "all_gather layers.0 + layers.1"
  double exposedNs = 0; // time that computation waited for it
  double awaitedNs = 0; // when computation went on
};

struct MeasuredStep {
  double stepNs = 0; // from the first to the last slice
  std::vector<MeasuredOperation> operations;
  std::vector<MeasuredCollective> collectives; // of each kind in lane order
};

/// Steps of one rank, all of the same schedule.
struct MeasuredRun {
  std::string mesh;   // "dp = 8"
  std::string source; // "measured, step 3"
  std::vector<MeasuredStep> steps;
};

/// Reads a trace of a training binary, or of fsdp-explain. Errors name the file and the faulty
/// event.
llvm::Expected<MeasuredRun> readMeasuredRun(const std::string &path);

/// Prints predicted figures beside the medians of measured ones: the step, computation and waits;
/// each block of modules; each collective. Without `all` only the ten blocks and the ten
/// collectives of the largest differences, else all in the order of the step. `view` is that of
/// `problem`. An error if the trace has another mesh or other collectives.
llvm::Error printMeasuredDiff(const schedule::Problem &problem, const ScheduleView &view,
                              const MeasuredRun &measured, bool all, llvm::raw_ostream &os);

/// Writes the same figures, all blocks and all collectives as one JSON object. Times are whole
/// nanoseconds, measured ones medians. Errors are those of printMeasuredDiff.
llvm::Error writeMeasuredDiff(const schedule::Problem &problem, const ScheduleView &view,
                              const MeasuredRun &measured, llvm::raw_ostream &os);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_MEASUREDSTEP_H
