//===- MeasuredPairs.cpp - Pairs of predicted and measured times ----------===//

#include "fsdp/Explain/MeasuredPairs.h"
#include "fsdp/Explain/Blocks.h"

#include <numeric>

using namespace fsdp::explain;

double TimePair::getMeasuredNs() const {
  if (ofSteps.empty())
    return 0;
  std::vector<double> sorted = ofSteps;
  llvm::sort(sorted);
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

void TimePair::add(const TimePair &other) {
  predictedNs += other.predictedNs;
  ofSteps.resize(std::max(ofSteps.size(), other.ofSteps.size()));
  for (auto [sum, ns] : llvm::zip(ofSteps, other.ofSteps))
    sum += ns;
}

std::vector<BlockTimes> fsdp::explain::pairBlocks(const fsdp::schedule::Problem &problem,
                                                  const ScheduleView &view,
                                                  const MeasuredRun &measured) {
  std::vector<BlockTimes> blocks;
  std::map<std::pair<StepPart, std::string>, size_t> indices;
  auto find = [&](llvm::StringRef module, StepPart part) -> BlockTimes & {
    // Operators of the root module have no module, operations of its group are named by the group.
    std::string name(module.empty() ? "root" : getBlockName(module));
    auto [entry, isNew] = indices.try_emplace({part, name}, blocks.size());
    if (isNew) {
      BlockTimes &block = blocks.emplace_back();
      block.name = name;
      block.part = part;
      block.ofSteps.resize(measured.steps.size());
      block.between.ofSteps.resize(measured.steps.size());
    }
    return blocks[entry->second];
  };
  for (size_t i = 0; i < view.operations.size(); ++i) {
    const OperationLabel &label = view.labels.operations[i];
    if (double ns = view.operations[i].endNs - view.operations[i].startNs; ns > 0) {
      BlockTimes &block = find(label.module, label.part);
      block.predictedNs += ns;
      if (double slower = ns - problem.operations[i].durationNs; slower > 1) // else rounding
        block.slowdownNs += slower;
    }
  }
  for (auto [index, step] : llvm::enumerate(measured.steps))
    for (const MeasuredOperation &operation : step.operations) {
      BlockTimes &block = find(operation.module, operation.part);
      block.ofSteps[index] += operation.beforeNs + operation.durationNs;
      block.between.ofSteps[index] += operation.beforeNs;
    }
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
fsdp::explain::pairCollectives(const ScheduleView &view, const MeasuredRun &measured) {
  for (const auto &[key, value] : view.labels.facts)
    if (key == "mesh" && withoutSeparators(value) != withoutSeparators(measured.mesh))
      return llvm::createStringError("the trace is of mesh '" + measured.mesh +
                                     "', the module of mesh '" + value + "'");
  std::vector<MeasuredByName> steps(measured.steps.begin(), measured.steps.end());
  std::vector<CollectiveTimes> pairs;
  auto add = [&](const CollectiveView &collective, llvm::StringRef kind, int64_t sizeBytes,
                 fsdp::schedule::Interval interval, double exposedNs) -> llvm::Error {
    CollectiveTimes times;
    times.kind = kind.str();
    times.groups = collective.groups;
    times.name = times.kind + " " + joinNames(collective.groups);
    times.part = collective.part;
    times.sizeBytes = sizeBytes;
    times.predictedNs = interval.endNs - interval.startNs;
    times.exposed.predictedNs = exposedNs;
    for (MeasuredByName &step : steps) {
      const MeasuredCollective *other = step.take(nameInFull(collective, kind), times.name);
      if (!other)
        return llvm::createStringError("the trace is of another schedule: it lacks '" + times.name +
                                       "' of the " + std::string(getName(collective.part)) +
                                       ", which the module launches");
      times.ofSteps.push_back(other->durationNs);
      times.exposed.ofSteps.push_back(other->exposedNs);
      times.intervals.push_back(other->getInterval());
    }
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
  for (const MeasuredByName &step : steps)
    if (const MeasuredCollective *rest = step.findRest())
      return llvm::createStringError("the trace is of another schedule: it has '" + rest->name +
                                     "', which the module does not launch as often");
  return pairs;
}

/// The sum of the rows' absolute errors as a share of the measured time.
template <typename Times> static double sumShares(const std::vector<Times> &rows) {
  double difference = 0, measured = 0;
  for (const Times &row : rows) {
    difference += row.getDifferenceNs();
    measured += row.getMeasuredNs();
  }
  return measured > 0 ? difference / measured : 0;
}

MeasuredErrors fsdp::explain::sumErrors(const ScheduleView &view, const MeasuredRun &measured,
                                        const std::vector<BlockTimes> &blocks,
                                        const std::vector<CollectiveTimes> &collectives) {
  MeasuredErrors errors;
  errors.step.predictedNs = view.makespanNs;
  for (const MeasuredStep &step : measured.steps)
    errors.step.ofSteps.push_back(step.stepNs);
  for (const BlockTimes &block : blocks) {
    errors.computation.add(block);
    errors.between.add(block.between);
    errors.slowdownNs += block.slowdownNs;
  }
  for (const CollectiveTimes &times : collectives) {
    MeasuredErrors::OfKind &ofKind = errors.collectives[times.kind];
    ofKind.work.add(times);
    ofKind.exposed.add(times.exposed);
    errors.waits.add(times.exposed);
    errors.waitsOneByOneNs += times.exposed.getDifferenceNs();
  }
  errors.shareOfBlocks = sumShares(blocks);
  errors.shareOfCollectives = sumShares(collectives);
  return errors;
}

static size_t findMedianStep(const std::vector<MeasuredStep> &steps) {
  std::vector<size_t> order(steps.size());
  std::iota(order.begin(), order.end(), size_t(0));
  llvm::stable_sort(order, [&](size_t a, size_t b) { return steps[a].stepNs < steps[b].stepNs; });
  return order[(order.size() - 1) / 2];
}

ScheduleView fsdp::explain::viewMedianStep(const ScheduleView &predicted,
                                           const MeasuredRun &measured,
                                           const std::vector<CollectiveTimes> &pairs) {
  const size_t index = findMedianStep(measured.steps);
  const MeasuredStep &step = measured.steps[index];
  ScheduleView view;
  view.labels.model = predicted.labels.model;
  view.labels.costSources = measured.source;
  view.makespanNs = step.stepNs;
  view.modelPeakNs = predicted.modelPeakNs;
  for (const MeasuredOperation &operation : step.operations) {
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
      view.collectives.back().across = times.intervals[index];
      view.collectives.back().exposedAcrossNs = times.exposed.ofSteps[index];
      continue;
    }
    CollectiveView collective = predicted.collectives[view.collectives.size()];
    collective.interval = times.intervals[index];
    collective.exposedNs = times.exposed.ofSteps[index];
    view.collectives.push_back(std::move(collective));
  }
  return view;
}
