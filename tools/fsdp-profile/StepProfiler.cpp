//===- StepProfiler.cpp - Measures each call of a step --------------------===//

#include "StepProfiler.h"

#include "CopyProfiler.h"
#include "RankProfiler.h"
#include "StepContents.h"
#include "device/CpuDevice.h"
#include "executor/FakeRun.h"
#include "watch/PlanLanes.h"
#include "llvm/ADT/MapVector.h"

#include <ATen/Parallel.h>

#include <map>
#include <optional>
#include <thread>
#include <time.h>
#include <unistd.h>

using namespace fsdp;
using namespace fsdp::profile;

namespace {

/// Figures of one place in the program, or summed over several equal places.
struct Figures {
  double medianNs = 0, spread = 0; // sums over places
  int64_t places = 0, samples = 0, temporaryBytes = 0;

  void add(const cost::SizedDuration &duration) {
    medianNs += duration.medianNs;
    spread += duration.spread;
    samples += duration.samples;
    ++places;
  }
  double meanNs() const { return medianNs / static_cast<double>(places); }
  double meanSpread() const { return spread / static_cast<double>(places); }
};

/// Figures by key, in program order.
template <typename Key> struct Table {
  struct Row {
    Key key;
    Figures figures;
  };
  std::vector<Row> rows;
  llvm::StringMap<size_t> rowOf; // by the key's text

  Row &operator[](Key key) {
    auto [slot, isNew] = rowOf.try_emplace(key.str(), rows.size());
    if (isNew)
      rows.push_back({std::move(key), {}});
    return rows[slot->second];
  }
};

} // namespace

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

/// Summarizes the ranks' samples of one entry; none if the entry does not run.
static std::optional<cost::SizedDuration> summarizeEntry(const std::vector<RankSamples> &ranks,
                                                         size_t entry) {
  std::vector<double> samples;
  for (const RankSamples &rank : ranks)
    samples.insert(samples.end(), rank.durationsNs[entry].begin(), rank.durationsNs[entry].end());
  if (samples.empty())
    return std::nullopt;
  return cost::summarize(samples);
}

static std::string nameDtype(uint32_t dtype) {
  switch (dtype) {
  case FSDP_F64:
    return "f64";
  case FSDP_F32:
    return "f32";
  case FSDP_F16:
    return "f16";
  default:
    return "bf16";
  }
}

static void addUpdates(const llvm::MapVector<std::pair<uint32_t, int64_t>, Figures> &updates,
                       OptimizerKind optimizer, cost::Profile &profile) {
  std::map<uint32_t, std::map<int64_t, cost::SizedDuration>> byDtype;
  for (const auto &[key, figures] : updates)
    byDtype[key.first][key.second] = {key.second, figures.meanNs(), figures.meanSpread(),
                                      figures.samples};
  for (const auto &[dtype, bySize] : byDtype) {
    cost::ProfiledUpdate &update = profile.updates.emplace_back();
    update.optimizer = optimizer;
    update.dtype = nameDtype(dtype);
    for (const auto &[size, duration] : bySize)
      update.durations.push_back(duration);
  }
}

/// Sorts the entries' durations into calls, updates and the parts of the step.
static void collect(const PlannedStep &step, const fsdp_plan &plan,
                    const std::vector<RankSamples> &ranks, cost::Profile &profile) {
  Table<cost::ProfileKey> calls;
  Table<cost::KernelKey> kernels;
  llvm::StringMap<std::string> kernelNames;                       // by the key's text
  llvm::MapVector<std::pair<uint32_t, int64_t>, Figures> updates; // by dtype and elements
  for (uint32_t i = 0; i < plan.num_entries; ++i) {
    std::optional<cost::SizedDuration> duration = summarizeEntry(ranks, i);
    if (!duration)
      continue;
    const fsdp_entry &entry = plan.entries[i];
    switch (entry.kind) {
    case FSDP_CALL: {
      auto call = llvm::cast<aten::CallOp>(step.operations[i]);
      Figures &figures = calls[cost::ProfileKey::of(call)].figures;
      figures.add(*duration);
      // Ranks may choose different kernels, since the choice depends on measured times.
      int64_t temporaryBytes = 0;
      for (const RankSamples &rank : ranks)
        temporaryBytes = std::max(temporaryBytes, rank.temporaryBytes[i]);
      figures.temporaryBytes = std::max(figures.temporaryBytes, temporaryBytes);
      profile.step.callsNs += duration->medianNs;
      break;
    }
    case FSDP_KERNEL: {
      KernelOp kernel = llvm::cast<LaunchOp>(step.operations[i]).getDeclaration();
      auto &row = kernels[cost::KernelKey::of(kernel)];
      row.figures.add(*duration);
      kernelNames.try_emplace(row.key.str(), kernel.getSymName().str());
      profile.step.kernelsNs += duration->medianNs;
      break;
    }
    case FSDP_PARTIAL_NORM:
    case FSDP_CLIP_FACTOR:
      profile.step.updatesNs += duration->medianNs;
      break;
    case FSDP_UPDATE: {
      const fsdp_group &group = plan.groups[entry.target];
      if (group.shard_elements)
        updates[{group.dtype, group.shard_elements}].add(*duration);
      profile.step.updatesNs += duration->medianNs;
      break;
    }
    case FSDP_CHUNK:
    case FSDP_COPY:
    case FSDP_ZERO:
      profile.step.copiesNs += duration->medianNs;
      break;
    default:
      profile.step.collectivesNs += duration->medianNs;
    }
  }
  for (const auto &[key, figures] : calls.rows)
    profile.calls.push_back(
        {key, figures.meanNs(), figures.meanSpread(), figures.samples, figures.temporaryBytes});
  for (const auto &[key, figures] : kernels.rows)
    profile.kernels.push_back({key, kernelNames.lookup(key.str()), figures.meanNs(),
                               figures.meanSpread(), figures.samples});
  addUpdates(updates, static_cast<OptimizerKind>(plan.optimizer.kind), profile);
  std::vector<double> steps;
  for (const RankSamples &rank : ranks) {
    steps.insert(steps.end(), rank.stepNs.begin(), rank.stepNs.end());
    profile.step.scratchBytes = std::max(profile.step.scratchBytes, rank.scratchBytes);
  }
  profile.step.durationNs = cost::medianOf(std::move(steps));
}

/// Joins the ranks' measurements into one profile.
static cost::Profile join(const PlannedStep &step, const fsdp_plan &plan,
                          const std::vector<RankProfiler> &ranks) {
  cost::Profile profile;
  profile.ranks = static_cast<int64_t>(ranks.size());
  std::vector<RankSamples> samples;
  for (const RankProfiler &rank : ranks)
    samples.push_back(rank.getSamples());
  collect(step, plan, samples, profile);
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
  cost::Profile profile = join(step, plan, ranks);
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
  cost::Profile profile = join(step, plan, ranks);
  auto copies = profileCopies(**device, samples);
  if (!copies.ok())
    return failed(copies.status());
  profile.copies = std::move(*copies);
  return profile;
}
