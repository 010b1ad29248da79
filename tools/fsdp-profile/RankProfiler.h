//===- RankProfiler.h - One rank's measured steps -----------------*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_RANKPROFILER_H
#define FSDP_TOOLS_PROFILE_RANKPROFILER_H

#include "comm/Communicator.h"
#include "executor/EntryTimes.h"
#include "executor/Executor.h"
#include "plan/PlanView.h"

#include <vector>

namespace fsdp::profile {

/// The measurements of one rank.
struct RankSamples {
  std::vector<std::vector<double>> durationsNs; // by entry, by step
  std::vector<double> stepNs;                   // by step
  std::vector<int64_t> temporaryBytes;          // by entry
  int64_t scratchBytes = 0;                     // of all entries
};

/// Runs one rank's steps entry by entry, without overlap of collectives, and measures each entry:
/// with the clock of the host whose thread runs the entries, or with events of a device. On a
/// device, entries are issued ahead; afterwards whole steps are run as in training, and give the
/// step's duration.
class RankProfiler {
public:
  /// The plan must outlive this object. `clock`: the host's clock, or null for events of a device.
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
  int64_t steps = 0; // run so far
  RankSamples measured;
};

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_RANKPROFILER_H
