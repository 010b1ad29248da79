//===- CollectiveTimer.h - Times the work of all ranks -------- -*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_COLLECTIVETIMER_H
#define FSDP_TOOLS_PROFILE_COLLECTIVETIMER_H

#include "RepetitionWatch.h"
#include "fsdp/CostModel/SizedDuration.h"

#include <functional>
#include <optional>

namespace fsdp::profile {

/// Times repetitions of work that all ranks do together: on a CPU by the clock, with a barrier
/// before each repetition; on a device by events of its compute stream, one repetition after the
/// other.
class CollectiveTimer {
public:
  struct Options {
    bool onHost = true; // the compute stream is the calling thread
    int samples = 20;
    /// Limit for one repetition on a device. On a CPU the communicator's deadline applies to
    /// collectives.
    std::chrono::milliseconds deadline{std::chrono::seconds(60)};
  };

  /// All arguments must outlive this object. A device must have timed events.
  CollectiveTimer(rt::Device &device, rt::Stream &compute, rt::Communicator &communicator,
                  const Options &options);
  /// Prepares events and memory on a device.
  rt::Status prepare();

  /// One repetition. It ends when the compute stream has completed its work.
  using Body = std::function<rt::Status()>;

  /// Median and spread over the repetitions, of the slowest rank. `size` is copied into the result.
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
