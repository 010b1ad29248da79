//===- MeasuredDiff.cpp - A predicted step beside a measured one ----------===//

#include "fsdp/Explain/Blocks.h"
#include "fsdp/Explain/MeasuredStep.h"
#include "fsdp/Explain/Quantities.h"
#include "fsdp/Explain/TextTable.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <map>
#include <numeric>

using namespace fsdp::explain;
using Align = TextTable::Align;

namespace {

/// Times of one thing in both steps, in nanoseconds.
struct Pair {
  double predictedNs = 0, measuredNs = 0;
  double difference() const { return std::abs(predictedNs - measuredNs); }
};

struct BlockTimes : Pair {
  std::string name;
  StepPart part = StepPart::Forward;
};

struct CollectiveTimes : Pair {
  std::string name; // for people
  StepPart part = StepPart::Forward;
  int64_t sizeBytes = 0;
  Pair exposed;
};

} // namespace

/// How far the prediction is from the measurement: "+3.1 %", "-0.4 %".
static std::string formatError(const Pair &pair) {
  if (pair.measuredNs <= 0)
    return "";
  return llvm::formatv("{0}{1:f1} %", pair.predictedNs >= pair.measuredNs ? "+" : "",
                       100 * (pair.predictedNs / pair.measuredNs - 1));
}

static std::vector<BlockTimes> pairBlocks(const ScheduleView &view, const MeasuredStep &measured) {
  std::vector<BlockTimes> blocks;
  std::map<std::pair<StepPart, std::string>, size_t> indices;
  auto find = [&](llvm::StringRef module, StepPart part) -> BlockTimes & {
    std::string name(getBlockName(module));
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

/// The name that a training binary gives to the collective, with all groups.
static std::string nameInFull(const CollectiveView &collective, llvm::StringRef kind) {
  std::string name = kind.str();
  for (size_t i = 0; i < collective.groups.size(); ++i)
    name += (i > 0 ? " + " : " ") + collective.groups[i];
  return name;
}

namespace {

/// Measured collectives by name, each to be taken once, in order.
class MeasuredByName {
public:
  explicit MeasuredByName(const MeasuredStep &measured) {
    for (const MeasuredCollective &collective : measured.collectives)
      byName[collective.name].push_back(&collective);
  }
  /// A simulated trace has short names. Null: there is none, or none is left.
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

static llvm::Expected<std::vector<CollectiveTimes>> pairCollectives(const ScheduleView &view,
                                                                    const MeasuredStep &measured) {
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

/// The rows to show, in the order of the step.
template <typename Times>
static std::vector<Times> chooseRows(const std::vector<Times> &rows, bool all) {
  constexpr size_t kMostShown = 10;
  if (all || rows.size() <= kMostShown)
    return rows;
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rows[a].difference() > rows[b].difference(); });
  order.resize(kMostShown);
  std::sort(order.begin(), order.end());
  std::vector<Times> chosen;
  for (size_t index : order)
    chosen.push_back(rows[index]);
  return chosen;
}

/// How far single rows are off, as a share of all measured time: errors do not cancel.
template <typename Times> static std::string sumErrors(const std::vector<Times> &rows) {
  double difference = 0, measured = 0;
  for (const Times &row : rows) {
    difference += row.difference();
    measured += row.measuredNs;
  }
  return measured > 0 ? formatShare(difference / measured) : "";
}

static void printTotals(const ScheduleView &view, const MeasuredStep &measured,
                        const std::vector<BlockTimes> &blocks,
                        const std::vector<CollectiveTimes> &collectives, llvm::raw_ostream &os) {
  TextTable table({{"", Align::Left},
                   {"predicted", Align::Right},
                   {"measured", Align::Right},
                   {"error", Align::Right}});
  auto add = [&](const char *name, const Pair &pair) {
    table.addRow(
        {name, formatTime(pair.predictedNs), formatTime(pair.measuredNs), formatError(pair)});
  };
  Pair compute;
  for (const BlockTimes &block : blocks) {
    compute.predictedNs += block.predictedNs;
    compute.measuredNs += block.measuredNs;
  }
  std::map<std::string, Pair> work, waits; // by kind
  for (const CollectiveTimes &times : collectives) {
    std::string kind = times.name.substr(0, times.name.find(' '));
    work[kind].predictedNs += times.predictedNs;
    work[kind].measuredNs += times.measuredNs;
    waits[kind].predictedNs += times.exposed.predictedNs;
    waits[kind].measuredNs += times.exposed.measuredNs;
  }
  add("step", {view.makespanNs, measured.stepNs});
  add("computation", compute);
  for (auto [kind, name, waiting] : {std::tuple("all_gather", "gathers", "waiting for gathers"),
                                     {"reduce_scatter", "reductions", "waiting for reductions"},
                                     {"all_reduce", "over replicas", "waiting for replicas"}})
    if (auto found = work.find(kind); found != work.end()) {
      add(name, found->second);
      add(waiting, waits[kind]);
    }
  table.print(os);
}

static void printBlocks(const std::vector<BlockTimes> &blocks, bool all, llvm::raw_ostream &os) {
  TextTable table({{"computation of", Align::Left},
                   {"part", Align::Left},
                   {"predicted", Align::Right},
                   {"measured", Align::Right},
                   {"error", Align::Right}});
  std::vector<BlockTimes> rows = chooseRows(blocks, all);
  for (const BlockTimes &block : rows)
    table.addRow({block.name.empty() ? "root" : block.name, std::string(getName(block.part)),
                  formatTime(block.predictedNs), formatTime(block.measuredNs), formatError(block)});
  os << '\n';
  table.print(os);
  if (rows.size() < blocks.size())
    os << "and " << blocks.size() - rows.size() << " that differ less\n";
}

static void printCollectives(const std::vector<CollectiveTimes> &collectives, bool all,
                             llvm::raw_ostream &os) {
  TextTable table({{"collective", Align::Left},
                   {"part", Align::Left},
                   {"size", Align::Right},
                   {"predicted", Align::Right},
                   {"measured", Align::Right},
                   {"error", Align::Right},
                   {"exposed: predicted", Align::Right},
                   {"measured", Align::Right}});
  std::vector<CollectiveTimes> rows = chooseRows(collectives, all);
  for (const CollectiveTimes &times : rows)
    table.addRow({times.name, std::string(getName(times.part)), formatBytes(times.sizeBytes),
                  formatTime(times.predictedNs), formatTime(times.measuredNs), formatError(times),
                  formatTime(times.exposed.predictedNs), formatTime(times.exposed.measuredNs)});
  os << '\n';
  table.print(os);
  if (rows.size() < collectives.size())
    os << "and " << collectives.size() - rows.size() << " that differ less\n";
}

/// A mesh without the commas in its numbers: "dp = 1,024" and "dp = 1024" are one.
static std::string withoutSeparators(llvm::StringRef mesh) {
  std::string text;
  for (size_t i = 0; i < mesh.size(); ++i)
    if (mesh[i] != ',' || mesh.substr(i + 1).starts_with(" "))
      text += mesh[i];
  return text;
}

llvm::Error fsdp::explain::printMeasuredDiff(const ScheduleView &view, const MeasuredStep &measured,
                                             bool all, llvm::raw_ostream &os) {
  for (const auto &[key, value] : view.labels.facts)
    if (key == "mesh" && withoutSeparators(value) != withoutSeparators(measured.mesh))
      return llvm::createStringError("the trace is of mesh '" + measured.mesh +
                                     "', the module of mesh '" + value + "'");
  std::vector<BlockTimes> blocks = pairBlocks(view, measured);
  llvm::Expected<std::vector<CollectiveTimes>> collectives = pairCollectives(view, measured);
  if (!collectives)
    return collectives.takeError();
  os << "predicted: " << view.labels.costSources << "\nmeasured: " << measured.source << "\n\n";
  printTotals(view, measured, blocks, *collectives, os);
  printBlocks(blocks, all, os);
  printCollectives(*collectives, all, os);
  os << "\nsum of absolute errors: " << sumErrors(blocks) << " of the computation";
  if (!collectives->empty())
    os << ", " << sumErrors(*collectives) << " of the collectives";
  os << '\n';
  return llvm::Error::success();
}
