//===- RefitProfile.cpp - A profile with the durations of a run -----------===//

#include "RefitProfile.h"

#include "RefitCurve.h"
#include "SampledProfile.h"
#include "llvm/ADT/StringMap.h"

using namespace fsdp;
using namespace fsdp::profile;

/// By entry: the key that tells it apart in a profile; "" for what a refit leaves as it is.
static std::vector<std::string> collectKeys(const PlannedStep &step, const fsdp_plan &plan) {
  std::vector<std::string> keys(plan.num_entries);
  for (uint32_t i = 0; i < plan.num_entries; ++i) {
    const fsdp_entry &entry = plan.entries[i];
    if (auto call = llvm::dyn_cast_or_null<aten::CallOp>(step.operations[i])) {
      keys[i] = cost::ProfileKey::of(call).str();
    } else if (auto launch = llvm::dyn_cast_or_null<LaunchOp>(step.operations[i])) {
      keys[i] = cost::KernelKey::of(launch.getDeclaration()).str();
    } else if (entry.kind == FSDP_UPDATE) {
      const fsdp_group &group = plan.groups[entry.target];
      keys[i] =
          "update " + std::to_string(group.dtype) + " " + std::to_string(group.shard_elements);
    }
  }
  return keys;
}

/// The durations that count, as if a profiler had measured them.
static RankSamples collectSamples(const PlannedStep &step, llvm::ArrayRef<EntryRun> runs) {
  const fsdp_plan plan = step.getPlan();
  const std::vector<std::string> keys = collectKeys(step, plan);
  struct Counts {
    size_t numAlone = 0, numAll = 0;
  };
  llvm::StringMap<Counts> countsOf; // by key
  for (const EntryRun &run : runs) {
    Counts &counts = countsOf[keys[run.entry]];
    counts.numAlone += run.duration.isAlone();
    ++counts.numAll;
  }
  auto onlyAlone = [&](const std::string &key) {
    const Counts counts = countsOf.lookup(key);
    return explain::areAloneEnough(counts.numAlone, counts.numAll);
  };
  RankSamples samples;
  samples.durationsNs.resize(plan.num_entries);
  samples.temporaryBytes.resize(plan.num_entries);
  for (const auto &[entry, duration] : runs)
    if (!keys[entry].empty() && (onlyAlone(keys[entry]) ? duration.isAlone() : duration.isKnown()))
      samples.durationsNs[entry].push_back(duration.ns);
  return samples;
}

/// Replaces the figures of calls, or of kernels.
template <typename Entry>
static void replaceFigures(std::vector<Entry> &entries, const std::vector<Entry> &measured) {
  llvm::StringMap<const Entry *> byKey;
  for (const Entry &entry : measured)
    byKey[entry.key.str()] = &entry;
  for (Entry &entry : entries)
    if (const Entry *found = byKey.lookup(entry.key.str())) {
      entry.medianNs = found->medianNs;
      entry.spread = found->spread;
      entry.samples = found->samples;
    }
}

cost::Profile fsdp::profile::refitProfile(cost::Profile profile, const PlannedStep &step,
                                          llvm::ArrayRef<EntryRun> runs) {
  cost::Profile measured;
  addSamples(step, {collectSamples(step, runs)}, measured);
  replaceFigures(profile.calls, measured.calls);
  replaceFigures(profile.kernels, measured.kernels);
  for (cost::ProfiledUpdate &update : profile.updates)
    for (const cost::ProfiledUpdate &found : measured.updates)
      if (found.optimizer == update.optimizer && found.dtype == update.dtype)
        update.durations = refitCurve(update.durations, found.durations, [&](int64_t elements) {
          return cost::interpolate(update.durations, elements);
        });
  return profile;
}
