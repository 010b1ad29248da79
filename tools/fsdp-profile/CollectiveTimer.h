//===- CollectiveTimer.h - How long the ranks take together -------*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_COLLECTIVETIMER_H
#define FSDP_TOOLS_PROFILE_COLLECTIVETIMER_H

#include "RepetitionWatch.h"
#include "fsdp/CostModel/SizedDuration.h"

#include <functional>
#include <optional>

namespace fsdp::profile {

/// Times what all ranks do together, again and again: on a CPU by the clock, each time after a
/// meeting of all ranks, on a device by events of its compute stream, one repetition behind the
/// other.
class CollectiveTimer {
public:
  struct Options {
    bool onHost = true; // the compute stream is the calling thread
    int samples = 20;
    /// Of a repetition on a device. Elsewhere collectives have the communicator's.
    std::chrono::milliseconds deadline{std::chrono::seconds(60)};
  };

  /// All arguments outlive the object. A device's events have times.
  CollectiveTimer(rt::Device &device, rt::Stream &compute, rt::Communicator &communicator,
                  const Options &options);
  /// Prepares what a device needs.
  rt::Status prepare();

  /// One repetition. It ends when the compute stream has done all of it.
  using Body = std::function<rt::Status()>;

  /// Median and spread over the repetitions, the slowest rank's. `size`: of the result.
  rt::Result<cost::SizedDuration> measure(const Body &body, int64_t size = 0);

private:
  rt::Result<std::vector<double>> measureOnHost(const Body &body);
  rt::Result<std::vector<double>> measureOnDevice(const Body &body);

  rt::Device &device;
  rt::Stream &compute;
  rt::Communicator &communicator;
  const Options options;
  std::unique_ptr<rt::Memory> completed; // a ProgressWord
  std::optional<RepetitionWatch> watch;
};

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_COLLECTIVETIMER_H
