//===- CollectiveProfiler.cpp - Measures collectives and contention ---------===//

#include "CollectiveProfiler.h"

#include "CollectiveStreams.h"
#include "HostDescription.h"
#include "RankProcesses.h"
#include "llvm/Support/Format.h"

#include <ATen/Parallel.h>

#include <cstring>

using namespace fsdp;
using namespace fsdp::profile;

static constexpr size_t kLargestBytes = 16 << 20, kContentionBytes = 2 << 20;
/// Collectives walk through this much memory, several times a last-level cache.
static constexpr size_t kArenaBytes = size_t(192) << 20;
static constexpr int kWarmUp = 3;

/// The smallest size that all ranks can share in f32 elements, from about 8 KiB on.
static size_t smallestBytes(unsigned ranks) {
  size_t unit = sizeof(float) * ranks, pieces = (8192 + unit - 1) / unit;
  return unit * pieces;
}

/// Maps every page of all arenas into every rank: what a step does in its first run.
static rt::Status touchArenas(CollectiveStreams &streams, std::byte *arena, size_t bytes) {
  std::memset(arena, 0, kArenaBytes);
  for (size_t place = 0; place + 2 * bytes <= kArenaBytes; place += bytes) {
    streams.startReduction(place, bytes, true);
    if (rt::Status status = streams.waitForReduction(); !status.ok())
      return status;
  }
  return {};
}

/// The median and spread of one collective, the slowest rank's.
static rt::Result<cost::SizedDuration> measure(CollectiveStreams &streams,
                                               rt::Communicator &communicator,
                                               cost::CollectiveKind kind, size_t bytes,
                                               int samples) {
  using Clock = CollectiveStreams::Clock;
  std::vector<double> durationsNs;
  size_t step = 2 * bytes + 4096, place = 0;
  for (int sample = -kWarmUp; sample < samples; ++sample) {
    place = place + 2 * step > kArenaBytes ? 0 : place + step;
    size_t aligned = place / 64 * 64;
    if (rt::Status status = streams.meet(); !status.ok())
      return status;
    Clock::time_point begin = Clock::now();
    rt::Status status;
    if (kind == cost::CollectiveKind::AllGather) {
      streams.startGather(aligned, bytes, true);
      status = streams.waitForGather();
    } else {
      streams.startReduction(aligned, bytes, true);
      status = streams.waitForReduction();
    }
    if (!status.ok())
      return status;
    if (sample >= 0)
      durationsNs.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count());
  }
  cost::SizedDuration duration = cost::summarize(durationsNs, static_cast<int64_t>(bytes));
  double figures[2] = {duration.medianNs, duration.spread};
  if (rt::Status status =
          communicator.allReduce(rt::kControlLane, figures, 2, FSDP_F64, rt::ReduceOp::Max);
      !status.ok())
    return status;
  duration.medianNs = figures[0];
  duration.spread = figures[1];
  return duration;
}

static rt::Result<std::string> profileRank(const CollectiveOptions &options,
                                           rt::Communicator &communicator) {
  at::set_num_threads(1);
  rt::Result<std::byte *> arena = communicator.makeArena(kArenaBytes);
  if (!arena.ok())
    return arena.status();
  cost::Network network;
  network.name = options.communicator + ", " + std::to_string(options.ranks) + " ranks";
  network.source = describeVersions() + ", " + describeHost();
  {
    CollectiveStreams streams(communicator, *arena);
    if (rt::Status status = touchArenas(streams, *arena, smallestBytes(options.ranks) << 6);
        !status.ok())
      return status;
    for (cost::CollectiveKind kind :
         {cost::CollectiveKind::AllGather, cost::CollectiveKind::ReduceScatter}) {
      cost::MeasuredCollective &collective = network.measured.emplace_back();
      collective.kind = kind;
      collective.ranks = options.ranks;
      for (size_t bytes = smallestBytes(options.ranks); bytes <= kLargestBytes; bytes *= 2) {
        auto duration = measure(streams, communicator, kind, bytes, options.samples);
        if (!duration.ok())
          return duration.status();
        collective.durations.push_back(*duration);
        collective.spread = std::max(collective.spread, duration->spread);
      }
      cost::Line line = cost::fitLine(collective.durations);
      collective.latencyNs = line.latencyNs;
      collective.nsPerByte = line.nsPerUnit;
    }
  }
  size_t bytes = smallestBytes(options.ranks);
  while (bytes < kContentionBytes)
    bytes *= 2;
  rt::Result<Contention> contention =
      measureContention(communicator, *arena, bytes, options.samples);
  if (!contention.ok())
    return contention.status();
  network.laneContention = contention->lanes;
  network.computeContention = contention->computation;
  std::string text;
  llvm::raw_string_ostream os(text);
  cost::writeNetwork(network, os);
  if (communicator.rank() != 0)
    return text;
  for (const cost::MeasuredCollective &collective : network.measured)
    llvm::errs() << llvm::format("fsdp-profile: %-14s %6.1f us + %.4f ns per byte\n",
                                 cost::getName(collective.kind).data(), collective.latencyNs / 1e3,
                                 collective.nsPerByte);
  llvm::errs() << llvm::format("fsdp-profile: contention of lanes %.2f, of computation %.2f\n",
                               network.laneContention, network.computeContention);
  return text;
}

llvm::Expected<std::string> fsdp::profile::profileCollectives(const CollectiveOptions &options) {
  return runOnRanks(options.communicator, options.ranks, [&](rt::Communicator &communicator) {
    return profileRank(options, communicator);
  });
}
