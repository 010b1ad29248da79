//===- MeasuredStep.h - Measured and predicted steps ------------*- C++ -*-===//
//
// A training binary writes the timeline of one step with --trace, in the format of Trace.h. These
// functions read it and compare it with the simulated step of the binary's schedule.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EXPLAIN_MEASUREDSTEP_H
#define FSDP_EXPLAIN_MEASUREDSTEP_H

#include "fsdp/Explain/ScheduleView.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

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
};

struct MeasuredCollective : MeasuredSlice {
  std::string name;     // "all_gather layers.0 + layers.1"
  double exposedNs = 0; // time that computation waited for it
};

/// One step of one rank.
struct MeasuredStep {
  std::string mesh;   // "dp = 8"
  std::string source; // "measured, step 3"
  double stepNs = 0;  // from the first to the last slice
  std::vector<MeasuredOperation> operations;
  std::vector<MeasuredCollective> collectives; // of each kind in lane order
};

/// Reads a trace of a training binary, or of fsdp-explain. Errors name the file and the faulty
/// event.
llvm::Expected<MeasuredStep> readMeasuredStep(const std::string &path);

/// Prints predicted and measured figures side by side: the step, computation and waits; each block
/// of modules; each collective. Without `all` only the ten blocks and the ten collectives of the
/// largest differences, else all in the order of the step. An error if the trace has another mesh
/// or other collectives.
llvm::Error printMeasuredDiff(const ScheduleView &view, const MeasuredStep &measured, bool all,
                              llvm::raw_ostream &os);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_MEASUREDSTEP_H
