//===- StepTrace.h - The timelines of steps ------------------- -*- C++ -*-===//
//
// Notes when each entry of some steps begins and ends on its stream, and writes a trace of the same
// form as the compiler's trace of the simulated step (lib/Explain/Trace.cpp), so that the two can
// be compared: tracks for modules, compute, gather, reduce and replicate; slices named by module
// path or by collective and groups. "exposed us" is the time for which the compute stream waits for
// a collective; "hidden us" is the rest of the collective's time. Each step is a process of the
// trace and begins at time 0.
//
// A CPU's entries are timed by the steady clock, those of a device by its events.
//
// Format: "Trace Event Format", Google, 2016.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_STEPTRACE_H
#define FSDP_RUNTIME_STEPTRACE_H

#include "executor/EntryTimes.h"
#include "plan/PlanView.h"

#include <map>
#include <ostream>
#include <span>
#include <string>

namespace fsdp::rt {

class StepTrace {
public:
  /// Of `steps`, which run `plan`. The plan and the device outlive the object. `onHost`: streams
  /// are threads of the host. Makes the device's events, which must have times.
  StepTrace(const PlanView &plan, Device &device, bool onHost, std::span<const int64_t> steps);

  /// To be called while step `step` runs; null: the step is not traced.
  EntryTracer *tracerOf(int64_t step);

  /// Writes the trace of the steps up to `last`, which have run. Errors come from the device.
  Status write(int64_t last, std::ostream &os);

private:
  const PlanView plan;
  std::map<int64_t, EntryTimes> times; // by step
};

/// Writes --trace FILE: the trace of the steps up to `last`. Errors name the flag and the file.
Status writeTraceFile(StepTrace &trace, int64_t last, const std::string &path);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_STEPTRACE_H
