//===- CollectiveTimer.cpp - Times the work of all ranks ------------------===//

#include "CollectiveTimer.h"

#include "AheadTimes.h"

using namespace fsdp;
using namespace fsdp::profile;

CollectiveTimer::CollectiveTimer(rt::Device &device, rt::Stream &compute,
                                 rt::Communicator &communicator, const Options &options)
    : device(device), compute(compute), communicator(communicator), options(options) {}

rt::Status CollectiveTimer::prepare() {
  if (options.onHost)
    return {};
  rt::Result<std::unique_ptr<rt::Memory>> memory = device.allocateHost(sizeof(rt::ProgressWord));
  if (!memory.ok())
    return memory.status();
  completed = std::move(*memory);
  watch.emplace(communicator, *reinterpret_cast<rt::ProgressWord *>(completed->data()),
                options.deadline);
  return {};
}

rt::Result<std::vector<double>> CollectiveTimer::measureOnHost(const Body &body) {
  using Clock = std::chrono::steady_clock;
  constexpr int kWarmUp = 3;
  std::vector<double> durationsNs;
  for (int sample = -kWarmUp; sample < options.samples; ++sample) {
    if (rt::Status status = communicator.barrier(rt::kControlLane); !status.ok())
      return status;
    Clock::time_point begin = Clock::now();
    if (rt::Status status = body(); !status.ok())
      return status;
    if (sample >= 0)
      durationsNs.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count());
  }
  return durationsNs;
}

rt::Result<std::vector<double>> CollectiveTimer::measureOnDevice(const Body &body) {
  const auto samples = static_cast<uint32_t>(options.samples);
  rt::EntryTimes times(samples, device);
  AheadTimes ahead(times);
  // The first round warms up, and measures the host's time.
  for (int round = 0; round < 2; ++round) {
    if (rt::Status status = communicator.barrier(rt::kControlLane); !status.ok())
      return status;
    ahead.beginRound();
    for (uint32_t sample = 0; sample < samples; ++sample) {
      ahead.begins(sample, compute);
      if (rt::Status status = body(); !status.ok())
        return status;
      ahead.ends(sample, compute);
      if (rt::Status status = compute.mark(*reinterpret_cast<rt::ProgressWord *>(completed->data()),
                                           watch->noteIssued());
          !status.ok())
        return status;
    }
    rt::Status status = times.read();
    // After an abort the device still runs, but its times are invalid.
    if (rt::Status failure = watch->status(); !failure.ok())
      return failure;
    if (!status.ok())
      return status;
    ahead.delayChunks();
  }
  return times.durationsNs();
}

rt::Result<cost::SizedDuration> CollectiveTimer::measure(const Body &body, int64_t size) {
  auto durationsNs = options.onHost ? measureOnHost(body) : measureOnDevice(body);
  if (!durationsNs.ok())
    return durationsNs.status();
  cost::SizedDuration duration = cost::summarize(*durationsNs, size);
  double figures[2] = {duration.medianNs, duration.spread};
  rt::Status status =
      communicator.allReduce(rt::kControlLane, figures, 2, FSDP_F64, rt::ReduceOp::Max);
  if (!status.ok())
    return status;
  duration.medianNs = figures[0];
  duration.spread = figures[1];
  return duration;
}
