//===- NetworkProfiler.cpp - Measures collectives and contention ------------===//

#include "NetworkProfiler.h"

#include <cstring>

using namespace fsdp;
using namespace fsdp::profile;

static constexpr size_t kMiB = size_t(1) << 20;

NetworkOptions NetworkOptions::ofCpus(int samples) {
  return {.largestBytes = 16 * kMiB,
          .contentionBytes = 2 * kMiB,
          .arenaBytes = 192 * kMiB,
          .productSize = 128,
          .samples = samples};
}

NetworkOptions NetworkOptions::ofGpus(int samples) {
  return {.largestBytes = 256 * kMiB,
          .contentionBytes = 64 * kMiB,
          .arenaBytes = 1280 * kMiB,
          .productSize = 2048,
          .samples = samples};
}

/// The smallest multiple of one f32 element per rank that is at least 8 KiB.
static size_t smallestBytes(unsigned ranks) {
  size_t unit = sizeof(float) * ranks, pieces = (8192 + unit - 1) / unit;
  return unit * pieces;
}

/// Maps every page of all arenas into every rank, as the first step of a run does.
static rt::Status touchArenas(CollectiveStreams &streams, std::byte *arena, size_t arenaBytes,
                              size_t bytes) {
  std::memset(arena, 0, arenaBytes);
  for (size_t place = 0; place + 2 * bytes <= arenaBytes; place += bytes) {
    streams.startReduction(place, bytes, true);
    if (rt::Status status = streams.waitForReduction(); !status.ok())
      return status;
  }
  return {};
}

static rt::Result<cost::SizedDuration> measure(CollectiveStreams &streams, CollectiveTimer &timer,
                                               cost::CollectiveKind kind, size_t bytes,
                                               size_t arenaBytes) {
  size_t step = 2 * bytes + 4096, place = 0;
  return timer.measure(
      [&] {
        place = place + 2 * step > arenaBytes ? 0 : place + step;
        size_t aligned = place / 64 * 64;
        if (kind == cost::CollectiveKind::AllGather) {
          streams.startGather(aligned, bytes, true);
          return streams.waitForGather();
        }
        streams.startReduction(aligned, bytes, true);
        return streams.waitForReduction();
      },
      static_cast<int64_t>(bytes));
}

rt::Result<cost::Network> fsdp::profile::measureNetwork(rt::Device &device,
                                                        rt::Communicator &communicator,
                                                        const NetworkOptions &options) {
  rt::Result<std::byte *> arena = communicator.makeArena(options.arenaBytes);
  if (!arena.ok())
    return arena.status();
  CollectiveStreams streams(device, communicator, *arena);
  CollectiveTimer timer(
      device, streams.getCompute(), communicator,
      {.onHost = streams.onHost(), .samples = options.samples, .deadline = options.deadline});
  if (rt::Status status = timer.prepare(); !status.ok())
    return status;
  size_t smallest = smallestBytes(communicator.size());
  if (streams.onHost())
    if (rt::Status status = touchArenas(streams, *arena, options.arenaBytes, smallest << 6);
        !status.ok())
      return status;
  cost::Network network;
  network.coalesces = communicator.coalesces();
  for (cost::CollectiveKind kind :
       {cost::CollectiveKind::AllGather, cost::CollectiveKind::ReduceScatter}) {
    cost::MeasuredCollective &collective = network.measured.emplace_back();
    collective.kind = kind;
    collective.ranks = communicator.size();
    for (size_t bytes = smallest; bytes <= options.largestBytes; bytes *= 2) {
      auto duration = measure(streams, timer, kind, bytes, options.arenaBytes);
      if (!duration.ok())
        return duration.status();
      collective.durations.push_back(*duration);
      collective.spread = std::max(collective.spread, duration->spread);
    }
    cost::Line line = cost::fitLine(collective.durations);
    collective.latencyNs = line.latencyNs;
    collective.nsPerByte = line.nsPerUnit;
  }
  size_t bytes = smallest;
  while (bytes < options.contentionBytes)
    bytes *= 2;
  rt::Result<schedule::Contention> contention =
      measureContention(streams, timer, bytes, options.productSize);
  if (!contention.ok())
    return contention.status();
  network.contention = *contention;
  return network;
}
