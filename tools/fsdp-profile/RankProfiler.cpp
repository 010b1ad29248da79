//===- RankProfiler.cpp - One rank's measured steps -------------------------===//

#include "RankProfiler.h"

#include "AheadTimes.h"
#include "StepContents.h"

#include <cstring>

using namespace fsdp;
using namespace fsdp::profile;

/// The first step measures temporaries; the next ones fill caches and tables, or become a graph.
static constexpr int kWarmUpSteps = 3;
static constexpr double kLearningRate = 1e-4;

rt::Status RankProfiler::fill(rt::Device &device, unsigned rank, std::byte *arena,
                              std::byte *hostArena) const {
  std::unique_ptr<rt::Stream> stream = device.makeStream("fsdp-fill");
  return fillState(plan, rank, [&](bool isOnHost, int64_t place, std::span<const std::byte> bytes) {
    stream->copy((isOnHost ? hostArena : arena) + place, bytes.data(), bytes.size());
    return stream->synchronize();
  });
}

rt::Status RankProfiler::runStep(rt::Executor &executor, rt::Communicator &communicator,
                                 const Inputs &inputs, bool counts) {
  if (rt::Status status = communicator.barrier(rt::kControlLane); !status.ok())
    return status;
  auto now = clock ? clock : &rt::EntryTimes::steadyClock;
  std::chrono::nanoseconds begin = now();
  for (size_t i = 0; i < inputs.size(); ++i)
    std::memcpy(executor.input(static_cast<unsigned>(i)).data(), inputs[i].data(),
                inputs[i].size());
  // By a scale of 1 gradients do not overflow, so that every step updates.
  if (auto results =
          executor.step({.step = ++steps, .learningRate = kLearningRate, .lossScale = 1});
      !results.ok())
    return results.status();
  if (counts)
    measured.stepNs.push_back(static_cast<double>((now() - begin).count()));
  return {};
}

void RankProfiler::noteDurations(const rt::EntryTimes &times) {
  for (uint32_t entry = 0; entry < plan.entries().size(); ++entry)
    if (times.hasRun(entry))
      measured.durationsNs[entry].push_back(times.durationNs(entry));
}

rt::Status RankProfiler::runTracedSteps(rt::Executor &executor, rt::Device &device,
                                        rt::Communicator &communicator, const Inputs &inputs) {
  size_t entries = plan.entries().size();
  rt::EntryTimes times = clock ? rt::EntryTimes(entries, clock) : rt::EntryTimes(entries, device);
  AheadTimes ahead(times);
  executor.trace(clock ? static_cast<rt::EntryTracer *>(&times) : &ahead, rt::Overlap::None);
  for (int step = 1; step <= kWarmUpSteps + samples; ++step) {
    bool counts = step > kWarmUpSteps;
    ahead.beginRound();
    if (rt::Status status = runStep(executor, communicator, inputs, counts && clock); !status.ok())
      return status;
    if (step == kWarmUpSteps)
      ahead.delayChunks();
    if (!counts)
      continue;
    if (rt::Status status = times.read(); !status.ok())
      return status;
    noteDurations(times);
  }
  executor.trace(nullptr);
  return {};
}

rt::Status RankProfiler::runWholeSteps(rt::Executor &executor, rt::Communicator &communicator,
                                       const Inputs &inputs) {
  for (int step = 1; step <= kWarmUpSteps + samples; ++step)
    if (rt::Status status = runStep(executor, communicator, inputs, step > kWarmUpSteps);
        !status.ok())
      return status;
  return {};
}

rt::Status RankProfiler::run(rt::Device &device, rt::Communicator &communicator,
                             const Inputs &inputs) {
  measured.durationsNs.resize(plan.entries().size());
  rt::Result<std::byte *> arena =
      communicator.makeArena(static_cast<size_t>(plan.tables().arena_bytes));
  if (!arena.ok())
    return arena.status();
  rt::Result<std::unique_ptr<rt::Executor>> created =
      rt::Executor::create(plan.tables(), device, communicator, *arena);
  if (!created.ok())
    return created.status();
  rt::Executor &executor = **created;
  if (rt::Status status = fill(device, communicator.rank(), *arena, executor.hostArena());
      !status.ok())
    return status;
  if (rt::Status status = runTracedSteps(executor, device, communicator, inputs); !status.ok())
    return status;
  if (!clock)
    if (rt::Status status = runWholeSteps(executor, communicator, inputs); !status.ok())
      return status;
  measured.temporaryBytes = executor.temporaryBytes();
  measured.scratchBytes = executor.statistics().scratchBytes;
  return {};
}
