//===- RankProfiler.h - One rank's measured steps -----------------*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_RANKPROFILER_H
#define FSDP_TOOLS_PROFILE_RANKPROFILER_H

#include "comm/Communicator.h"
#include "executor/EntryTimes.h"
#include "executor/Executor.h"
#include "plan/PlanView.h"

#include <vector>

namespace fsdp::profile {

/// What one rank has measured.
struct RankSamples {
  std::vector<std::vector<double>> durationsNs; // by entry, by step
  std::vector<double> stepNs;                   // by step
  std::vector<int64_t> temporaryBytes;          // by entry
  int64_t scratchBytes = 0;                     // of all
};

/// Runs one rank's steps, entry by entry and collectives beside nothing, and takes the time of each
/// entry: by a clock of the host whose thread runs them, or by events of a device. There entries
/// are issued ahead of it, and the steps whose durations count follow: whole, as in training.
class RankProfiler {
public:
  /// The plan outlives the object. `clock`: of a host; null: events of a device.
  RankProfiler(const fsdp_plan &plan, int samples, rt::EntryTimes::Clock clock)
      : plan(plan), samples(samples), clock(clock) {}

  /// `inputs`: the bytes of every input of the plan. May throw what torch throws.
  rt::Status run(rt::Device &device, rt::Communicator &communicator,
                 const std::vector<std::vector<std::byte>> &inputs);

  const RankSamples &getSamples() const { return measured; }

private:
  using Inputs = std::vector<std::vector<std::byte>>;

  rt::Status fill(rt::Device &device, unsigned rank, std::byte *arena, std::byte *hostArena) const;
  rt::Status runStep(rt::Executor &executor, rt::Communicator &communicator, const Inputs &inputs,
                     bool counts);
  rt::Status runTracedSteps(rt::Executor &executor, rt::Device &device,
                            rt::Communicator &communicator, const Inputs &inputs);
  rt::Status runWholeSteps(rt::Executor &executor, rt::Communicator &communicator,
                           const Inputs &inputs);
  void noteDurations(const rt::EntryTimes &times);

  const rt::PlanView plan;
  const int samples;
  const rt::EntryTimes::Clock clock;
  int64_t steps = 0; // that have run
  RankSamples measured;
};

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_RANKPROFILER_H
