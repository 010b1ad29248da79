//===- StepTrace.h - The timeline of a step ------------------- -*- C++ -*-===//
//
// Notes when each entry of one step begins and ends on its stream, and writes a trace of the same
// form as the compiler's trace of the simulated step (lib/Explain/Trace.cpp), so that the two can
// be compared: tracks for modules, compute, gather, reduce and replicate; slices named by module
// path or by collective and groups. "exposed us" is the time for which the compute stream waits for
// a collective; "hidden us" is the rest of the collective's time.
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

#include <ostream>
#include <string>

namespace fsdp::rt {

class StepTrace final : public EntryTracer {
public:
  /// The plan and the device outlive the object. `onHost`: streams are threads of the host. Makes
  /// the device's events, which must have times.
  StepTrace(const PlanView &plan, Device &device, bool onHost);

  void begins(uint32_t entry, Stream &stream) override { times.begins(entry, stream); }
  void ends(uint32_t entry, Stream &stream) override { times.ends(entry, stream); }

  /// Writes the trace of step `step`, which has run. Errors come from the device.
  Status write(int64_t step, std::ostream &os);

private:
  const PlanView plan;
  EntryTimes times;
};

/// Writes --trace FILE: the trace of step `step`. Errors name the flag and the file.
Status writeTraceFile(StepTrace &trace, int64_t step, const std::string &path);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_STEPTRACE_H
