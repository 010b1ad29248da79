//===- StepProfiler.h - Measures each call of a step ---------- -*- C++ -*-===//
//
// Runs the step with the training binary's executor, arena, kernels and optimizer, step after step
// in program order, and measures each entry. So operands are as cold in caches as in training.
// Collectives run where they start, without overlap.
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
  Cpu // CPU time of the thread, without other programs; for one thread per rank
};

struct CpuOptions {
  int threads = 1;  // torch's threads per rank
  int samples = 20; // steps that are measured
  Clock clock = Clock::Wall;
};

/// Measures the step's calls, kernels, updates, copies and parts. All ranks run at the same time,
/// each on a thread of this process. An error names the failure of a rank.
llvm::Expected<cost::Profile> profileOnCpus(const PlannedStep &step, const CpuOptions &options);

/// The same on the first device of `backend`, as rank 0 of the step's ranks; collectives copy the
/// bytes that other ranks would send. `samples`: number of measured steps.
llvm::Expected<cost::Profile> profileOnDevice(const PlannedStep &step, rt::DeviceBackend &backend,
                                              int samples);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_STEPPROFILER_H
