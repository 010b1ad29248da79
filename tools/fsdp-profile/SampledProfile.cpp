//===- SampledProfile.cpp - A profile from samples of entries --------------===//

#include "SampledProfile.h"

#include "llvm/ADT/MapVector.h"

#include <map>
#include <optional>

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

void fsdp::profile::addSamples(const PlannedStep &step, const std::vector<RankSamples> &ranks,
                               cost::Profile &profile) {
  const fsdp_plan plan = step.getPlan();
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
}
