//===- StepProfiler.cpp - How long each call of a step takes ----------------===//

#include "StepProfiler.h"

#include "StepContents.h"
#include "comm/Communicator.h"
#include "device/CpuDevice.h"
#include "executor/Executor.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/MapVector.h"

#include <ATen/Parallel.h>

#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <time.h>
#include <unistd.h>

using namespace fsdp;
using namespace fsdp::profile;

namespace {

/// The first step measures temporaries; the next ones fill caches and tables.
constexpr int kWarmUpSteps = 3;
constexpr double kLearningRate = 1e-4;

/// What one rank has measured.
struct RankSamples {
  std::vector<std::vector<double>> durationsNs; // by entry, by step
  std::vector<double> stepNs;                   // by step
  std::vector<int64_t> temporaryBytes;          // by entry
  int64_t scratchBytes = 0;                     // of all
};

/// Runs one rank's steps.
class RankProfiler final : public rt::StepObserver {
public:
  RankProfiler(const fsdp_plan &plan, rt::Communicator &communicator, const StepOptions &options)
      : plan(plan), communicator(communicator), options(options) {
    samples.durationsNs.resize(plan.num_entries);
  }

  rt::Status run(const std::vector<std::vector<std::byte>> &inputs);
  std::chrono::nanoseconds now() override {
    if (options.clock == Clock::Wall)
      return std::chrono::steady_clock::now().time_since_epoch();
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
  void ran(uint32_t entry, std::chrono::nanoseconds duration) override {
    if (measuring)
      samples.durationsNs[entry].push_back(static_cast<double>(duration.count()));
  }
  const RankSamples &getSamples() const { return samples; }

private:
  rt::Status runStep(rt::Executor &executor, int64_t number,
                     const std::vector<std::vector<std::byte>> &inputs);

  const fsdp_plan &plan;
  rt::Communicator &communicator;
  const StepOptions &options;
  bool measuring = false;
  RankSamples samples;
};

/// The figures of one place of the program, or of several alike.
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

} // namespace

rt::Status RankProfiler::runStep(rt::Executor &executor, int64_t number,
                                 const std::vector<std::vector<std::byte>> &inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    std::memcpy(executor.input(static_cast<unsigned>(i)).data(), inputs[i].data(),
                inputs[i].size());
  return executor.step({number, kLearningRate, 0}).status();
}

rt::Status RankProfiler::run(const std::vector<std::vector<std::byte>> &inputs) {
  at::set_num_threads(options.threads);
  rt::Result<std::byte *> arena = communicator.makeArena(static_cast<size_t>(plan.arena_bytes));
  if (!arena.ok())
    return arena.status();
  rt::PlanView view(plan);
  fillState(view, communicator.rank(), *arena);
  rt::CpuDevice device;
  rt::Result<std::unique_ptr<rt::Executor>> executor =
      rt::Executor::create(plan, device, communicator, *arena);
  if (!executor.ok())
    return executor.status();
  (*executor)->observe(this);
  for (int step = 1; step <= kWarmUpSteps + options.samples; ++step) {
    measuring = step > kWarmUpSteps;
    if (rt::Status status = communicator.barrier(rt::kControlLane); !status.ok())
      return status;
    std::chrono::nanoseconds begin = now();
    if (rt::Status status = runStep(**executor, step, inputs); !status.ok())
      return status;
    if (measuring)
      samples.stepNs.push_back(static_cast<double>((now() - begin).count()));
  }
  samples.temporaryBytes = (*executor)->temporaryBytes();
  samples.scratchBytes = (*executor)->statistics().scratchBytes;
  return {};
}

/// Runs all ranks to their end. The failure of one is told to the others; the first of all is
/// returned.
static llvm::Error runRanks(std::vector<RankProfiler> &ranks,
                            std::vector<std::unique_ptr<rt::Communicator>> &communicators,
                            const std::vector<std::vector<std::byte>> &inputs) {
  std::vector<std::string> failures(ranks.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        failures[rank] = ranks[rank].run(inputs).message();
      } catch (const std::exception &exception) {
        failures[rank] = exception.what();
      }
      if (!failures[rank].empty())
        communicators[rank]->abort(failures[rank]);
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &failure : failures)
    if (!failure.empty())
      return llvm::createStringError(failure.substr(0, failure.find('\n')));
  return llvm::Error::success();
}

/// Joins the ranks' samples of one entry; none if the entry does not run.
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
  llvm::MapVector<llvm::StringRef, Figures, llvm::StringMap<unsigned>> calls;
  llvm::StringMap<cost::ProfileKey> keys;
  llvm::MapVector<std::pair<uint32_t, int64_t>, Figures> updates; // by dtype and elements
  for (uint32_t i = 0; i < plan.num_entries; ++i) {
    std::optional<cost::SizedDuration> duration = summarizeEntry(ranks, i);
    if (!duration)
      continue;
    const fsdp_entry &entry = plan.entries[i];
    switch (entry.kind) {
    case FSDP_CALL: {
      cost::ProfileKey key = cost::ProfileKey::of(step.calls[i]);
      auto [slot, isNew] = keys.try_emplace(key.str(), std::move(key));
      Figures &figures = calls[slot->first()];
      figures.add(*duration);
      // The choice of a kernel depends on the machine and on time: ranks may differ.
      int64_t temporaryBytes = 0;
      for (const RankSamples &rank : ranks)
        temporaryBytes = std::max(temporaryBytes, rank.temporaryBytes[i]);
      figures.temporaryBytes = std::max(figures.temporaryBytes, temporaryBytes);
      profile.step.callsNs += duration->medianNs;
      break;
    }
    case FSDP_SQUARE_SUM:
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
    case FSDP_COPY:
    case FSDP_ZERO:
      profile.step.copiesNs += duration->medianNs;
      break;
    default:
      profile.step.collectivesNs += duration->medianNs;
    }
  }
  for (const auto &[text, figures] : calls)
    profile.calls.push_back({keys.lookup(text), figures.meanNs(), figures.meanSpread(),
                             figures.samples, figures.temporaryBytes});
  addUpdates(updates, static_cast<OptimizerKind>(plan.optimizer.kind), profile);
  std::vector<double> steps;
  for (const RankSamples &rank : ranks) {
    steps.insert(steps.end(), rank.stepNs.begin(), rank.stepNs.end());
    profile.step.scratchBytes = std::max(profile.step.scratchBytes, rank.scratchBytes);
  }
  profile.step.durationNs = cost::medianOf(std::move(steps));
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

llvm::Expected<cost::Profile> fsdp::profile::profileStep(const PlannedStep &step,
                                                         const StepOptions &options) {
  fsdp_plan plan = step.tables.getPlan();
  if (llvm::Error error = checkMemory(plan))
    return error;
  auto communicators = rt::makeLocalCommunicators(plan.world_size, {.replicas = plan.replicas});
  if (communicators.empty())
    return llvm::createStringError("no memory for the communicators of the ranks");
  std::vector<RankProfiler> ranks;
  for (auto &communicator : communicators)
    ranks.emplace_back(plan, *communicator, options);
  if (llvm::Error error = runRanks(ranks, communicators, makeInputs(step, rt::PlanView(plan), 1)))
    return error;

  cost::Profile profile;
  profile.ranks = static_cast<int64_t>(ranks.size());
  std::vector<RankSamples> samples;
  for (const RankProfiler &rank : ranks)
    samples.push_back(rank.getSamples());
  collect(step, plan, samples, profile);
  return profile;
}
