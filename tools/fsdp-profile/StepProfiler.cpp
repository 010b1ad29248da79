//===- StepProfiler.cpp - Measures each call of a step --------------------===//

#include "StepProfiler.h"

#include "CopyProfiler.h"
#include "RankProfiler.h"
#include "SampledProfile.h"
#include "StepContents.h"
#include "device/CpuDevice.h"
#include "executor/FakeRun.h"
#include "watch/PlanLanes.h"

#include <ATen/Parallel.h>

#include <thread>
#include <time.h>
#include <unistd.h>

using namespace fsdp;
using namespace fsdp::profile;

/// Runs all ranks until they end. A failure of one rank aborts the others; the first failure is
/// returned.
static llvm::Error runRanks(std::vector<RankProfiler> &ranks,
                            std::vector<std::unique_ptr<rt::Communicator>> &communicators,
                            int threads, const std::vector<std::vector<std::byte>> &inputs) {
  std::vector<std::string> failures(ranks.size());
  std::vector<std::thread> running;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    running.emplace_back([&, rank] {
      at::set_num_threads(threads);
      rt::CpuDevice device;
      try {
        failures[rank] = ranks[rank].run(device, *communicators[rank], inputs).message();
      } catch (const std::exception &exception) {
        failures[rank] = exception.what();
      }
      if (!failures[rank].empty())
        communicators[rank]->abort(rt::Status::error(failures[rank]));
    });
  for (std::thread &thread : running)
    thread.join();
  for (const std::string &failure : failures)
    if (!failure.empty())
      return llvm::createStringError(failure.substr(0, failure.find('\n')));
  return llvm::Error::success();
}

/// Joins the ranks' measurements into one profile.
static cost::Profile join(const PlannedStep &step, const std::vector<RankProfiler> &ranks) {
  cost::Profile profile;
  profile.ranks = static_cast<int64_t>(ranks.size());
  std::vector<RankSamples> samples;
  std::vector<double> steps;
  for (const RankProfiler &rank : ranks) {
    const RankSamples &measured = samples.emplace_back(rank.getSamples());
    steps.insert(steps.end(), measured.stepNs.begin(), measured.stepNs.end());
    profile.step.scratchBytes = std::max(profile.step.scratchBytes, measured.scratchBytes);
  }
  profile.step.durationNs = cost::medianOf(std::move(steps));
  addSamples(step, samples, profile);
  return profile;
}

//===----------------------------------------------------------------------===//
// CPUs
//===----------------------------------------------------------------------===//

static std::chrono::nanoseconds threadClock() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

static llvm::Error checkMemory(const fsdp_plan &plan) {
  int64_t available = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  int64_t needed = plan.arena_bytes * plan.world_size;
  if (needed <= available)
    return llvm::Error::success();
  return llvm::createStringError("the step needs " + std::to_string(needed) + " bytes for its " +
                                 std::to_string(plan.world_size) + " ranks, this machine has " +
                                 std::to_string(available));
}

llvm::Expected<cost::Profile> fsdp::profile::profileOnCpus(const PlannedStep &step,
                                                           const CpuOptions &options) {
  fsdp_plan plan = step.getPlan();
  if (llvm::Error error = checkMemory(plan))
    return error;
  auto communicators =
      rt::makeLocalCommunicators(plan.world_size, {.lanes = rt::lanesOf(rt::PlanView(plan))});
  if (communicators.empty())
    return llvm::createStringError("no memory for the communicators of the ranks");
  bool wall = options.clock == Clock::Wall;
  std::vector<RankProfiler> ranks;
  for (size_t rank = 0; rank < communicators.size(); ++rank)
    ranks.emplace_back(plan, options.samples, wall ? &rt::EntryTimes::steadyClock : &threadClock);
  if (llvm::Error error =
          runRanks(ranks, communicators, options.threads, makeInputs(step, rt::PlanView(plan), 1)))
    return error;
  cost::Profile profile = join(step, ranks);
  profile.copies = profileCopies(profile.ranks, options.samples);
  return profile;
}

//===----------------------------------------------------------------------===//
// A device
//===----------------------------------------------------------------------===//

/// Runs rank 0 of the plan's ranks, and frees its memory at the end.
static rt::Status runOnDevice(RankProfiler &rank, rt::DeviceBackend &backend, rt::Device &device,
                              const rt::PlanView &plan,
                              const std::vector<std::vector<std::byte>> &inputs) {
  auto communicator = backend.makeFakeCommunicator(device, rt::fakeOptionsOf(plan));
  if (!communicator.ok())
    return communicator.status();
  try {
    return rank.run(device, **communicator, inputs);
  } catch (const std::exception &exception) {
    return rt::Status::error(exception.what());
  }
}

llvm::Expected<cost::Profile>
fsdp::profile::profileOnDevice(const PlannedStep &step, rt::DeviceBackend &backend, int samples) {
  fsdp_plan plan = step.getPlan();
  rt::PlanView view(plan);
  auto failed = [](const rt::Status &status) {
    const std::string &message = status.message();
    return llvm::createStringError(message.substr(0, message.find('\n')));
  };
  auto device = backend.openDevice({.ordinal = 0, .timedEvents = true});
  if (!device.ok())
    return failed(device.status());
  std::vector<RankProfiler> ranks;
  ranks.emplace_back(plan, samples, nullptr);
  rt::Status status = runOnDevice(ranks[0], backend, **device, view, makeInputs(step, view, 1));
  if (!status.ok())
    return failed(status);
  cost::Profile profile = join(step, ranks);
  auto copies = profileCopies(**device, samples);
  if (!copies.ok())
    return failed(copies.status());
  profile.copies = std::move(*copies);
  return profile;
}
