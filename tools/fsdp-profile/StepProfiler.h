//===- StepProfiler.h - How long each call of a step takes --------*- C++ -*-===//
//
// Runs the step as the training binary does (its executor, arena, kernels and optimizer), step
// after step in program order, and takes the time of each entry. So operands are as cold as in
// training. Collectives run where they start, beside nothing.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_PROFILE_STEPPROFILER_H
#define FSDP_TOOLS_PROFILE_STEPPROFILER_H

#include "PlannedStep.h"
#include "backend/Backend.h"
#include "fsdp/CostModel/Profile.h"

namespace fsdp::profile {

enum class Clock : uint8_t {
  Wall,
  Cpu // of the thread: other programs do not count; for one thread per rank
};

struct CpuOptions {
  int threads = 1;  // of torch, per rank
  int samples = 20; // steps that are measured
  Clock clock = Clock::Wall;
};

/// The calls, kernels, updates, copies and times of the step, all of whose ranks run at the same
/// time, each on a thread of this process. An error names the rank's failure.
llvm::Expected<cost::Profile> profileOnCpus(const PlannedStep &step, const CpuOptions &options);

/// The same on the first device of `backend`, as rank 0 of the step's ranks; collectives copy what
/// the others would send. `samples`: steps that are measured.
llvm::Expected<cost::Profile> profileOnDevice(const PlannedStep &step, rt::DeviceBackend &backend,
                                              int samples);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_STEPPROFILER_H
