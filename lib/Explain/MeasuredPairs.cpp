//===- MeasuredPairs.cpp - Pairs of predicted and measured times ----------===//

#include "MeasuredPairs.h"

#include "fsdp/Explain/Blocks.h"

#include <map>

using namespace fsdp::explain;

std::vector<BlockTimes> fsdp::explain::pairBlocks(const ScheduleView &view,
                                                  const MeasuredStep &measured) {
  std::vector<BlockTimes> blocks;
  std::map<std::pair<StepPart, std::string>, size_t> indices;
  auto find = [&](llvm::StringRef module, StepPart part) -> BlockTimes & {
    // Operators of the root module have no module, operations of its group are named by the group.
    std::string name(module.empty() ? "root" : getBlockName(module));
    auto [entry, isNew] = indices.try_emplace({part, name}, blocks.size());
    if (isNew) {
      blocks.emplace_back();
      blocks.back().name = name;
      blocks.back().part = part;
    }
    return blocks[entry->second];
  };
  for (size_t i = 0; i < view.operations.size(); ++i) {
    const OperationLabel &label = view.labels.operations[i];
    if (double ns = view.operations[i].endNs - view.operations[i].startNs; ns > 0)
      find(label.module, label.part).predictedNs += ns;
  }
  for (const MeasuredOperation &operation : measured.operations)
    find(operation.module, operation.part).measuredNs += operation.durationNs;
  return blocks;
}

/// The collective's name in a training binary, with all groups.
static std::string nameInFull(const CollectiveView &collective, llvm::StringRef kind) {
  std::string name = kind.str();
  for (size_t i = 0; i < collective.groups.size(); ++i)
    name += (i > 0 ? " + " : " ") + collective.groups[i];
  return name;
}

namespace {

/// Measured collectives by name, each taken once, in order.
class MeasuredByName {
public:
  explicit MeasuredByName(const MeasuredStep &measured) {
    for (const MeasuredCollective &collective : measured.collectives)
      byName[collective.name].push_back(&collective);
  }
  /// Takes the next collective of this name; `shortName` is that of a simulated trace. Null if none
  /// is left.
  const MeasuredCollective *take(const std::string &name, const std::string &shortName) {
    for (const std::string &key : {name, shortName})
      if (auto found = byName.find(key); found != byName.end() && !found->second.empty()) {
        const MeasuredCollective *collective = found->second.front();
        found->second.erase(found->second.begin());
        return collective;
      }
    return nullptr;
  }
  const MeasuredCollective *findRest() const {
    for (const auto &[name, collectives] : byName)
      if (!collectives.empty())
        return collectives.front();
    return nullptr;
  }

private:
  std::map<std::string, std::vector<const MeasuredCollective *>> byName;
};

} // namespace

/// A mesh without thousands separators: "dp = 1,024" and "dp = 1024" are equal.
static std::string withoutSeparators(llvm::StringRef mesh) {
  std::string text;
  for (size_t i = 0; i < mesh.size(); ++i)
    if (mesh[i] != ',' || mesh.substr(i + 1).starts_with(" "))
      text += mesh[i];
  return text;
}

llvm::Expected<std::vector<CollectiveTimes>>
fsdp::explain::pairCollectives(const ScheduleView &view, const MeasuredStep &measured) {
  for (const auto &[key, value] : view.labels.facts)
    if (key == "mesh" && withoutSeparators(value) != withoutSeparators(measured.mesh))
      return llvm::createStringError("the trace is of mesh '" + measured.mesh +
                                     "', the module of mesh '" + value + "'");
  MeasuredByName byName(measured);
  std::vector<CollectiveTimes> pairs;
  auto add = [&](const CollectiveView &collective, llvm::StringRef kind, int64_t sizeBytes,
                 fsdp::schedule::Interval interval, double exposedNs) -> llvm::Error {
    CollectiveTimes times;
    times.name = kind.str() + " " + joinNames(collective.groups);
    const MeasuredCollective *other = byName.take(nameInFull(collective, kind), times.name);
    if (!other)
      return llvm::createStringError("the trace is of another schedule: it lacks '" + times.name +
                                     "' of the " + std::string(getName(collective.part)) +
                                     ", which the module launches");
    times.part = collective.part;
    times.sizeBytes = sizeBytes;
    times.predictedNs = interval.endNs - interval.startNs;
    times.measuredNs = other->durationNs;
    times.exposed = {exposedNs, other->exposedNs};
    times.measured = other->getInterval();
    times.isAcross = kind == "all_reduce";
    pairs.push_back(times);
    return llvm::Error::success();
  };
  for (const CollectiveView &collective : view.collectives) {
    if (llvm::Error error = add(collective, getName(collective.kind), collective.sizeBytes,
                                collective.interval, collective.exposedNs))
      return error;
    if (collective.across)
      if (llvm::Error error = add(collective, "all_reduce", collective.acrossBytes,
                                  *collective.across, collective.exposedAcrossNs))
        return error;
  }
  if (const MeasuredCollective *rest = byName.findRest())
    return llvm::createStringError("the trace is of another schedule: it has '" + rest->name +
                                   "', which the module does not launch as often");
  return pairs;
}

ScheduleView fsdp::explain::viewMeasuredStep(const ScheduleView &predicted,
                                             const MeasuredStep &measured,
                                             const std::vector<CollectiveTimes> &pairs) {
  ScheduleView view;
  view.labels.model = predicted.labels.model;
  view.labels.costSources = measured.source;
  view.makespanNs = measured.stepNs;
  view.modelPeakNs = predicted.modelPeakNs;
  for (const MeasuredOperation &operation : measured.operations) {
    OperationLabel label;
    label.name = operation.name;
    label.module = operation.module;
    label.part = operation.part;
    view.labels.operations.push_back(std::move(label));
    view.operations.push_back(operation.getInterval());
  }
  view.liveBytes.resize(view.operations.size());
  for (const CollectiveTimes &times : pairs) {
    if (times.isAcross) {
      view.collectives.back().across = times.measured;
      view.collectives.back().exposedAcrossNs = times.exposed.measuredNs;
      continue;
    }
    CollectiveView collective = predicted.collectives[view.collectives.size()];
    collective.interval = times.measured;
    collective.exposedNs = times.exposed.measuredNs;
    view.collectives.push_back(std::move(collective));
  }
  return view;
}
