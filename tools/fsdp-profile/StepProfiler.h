//===- StepProfiler.h - How long each call of a step takes --------*- C++ -*-===//
//
// Runs the step as the training binary does (its executor, arena, kernels and optimizer, one thread
// per rank of this process), step after step in program order, and takes the time of each entry. So
// operands are as cold as in training. Collectives run at their waits, beside nothing.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_PROFILE_STEPPROFILER_H
#define FSDP_TOOLS_PROFILE_STEPPROFILER_H

#include "PlannedStep.h"
#include "fsdp/CostModel/Profile.h"

namespace fsdp::profile {

enum class Clock : uint8_t {
  Wall,
  Cpu // of the thread: other programs do not count; for one thread per rank
};

struct StepOptions {
  int threads = 1;  // of torch, per rank
  int samples = 20; // steps that are measured
  Clock clock = Clock::Wall;
};

/// The calls, updates and times of the step; an error names the rank's failure.
llvm::Expected<cost::Profile> profileStep(const PlannedStep &step, const StepOptions &options);

/// Copies of 4 KiB to 16 MiB that were not in a cache, as `ranks` threads do at the same time.
std::vector<cost::SizedDuration> profileCopies(int64_t ranks, int samples);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_STEPPROFILER_H
