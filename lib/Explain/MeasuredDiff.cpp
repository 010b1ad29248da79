//===- MeasuredDiff.cpp - A predicted step beside a measured one ----------===//

#include "MeasuredPairs.h"
#include "fsdp/Explain/Quantities.h"
#include "fsdp/Explain/TextTable.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <map>
#include <numeric>

using namespace fsdp::explain;
using Align = TextTable::Align;

/// The relative error of the prediction: "+3.1 %", "-0.4 %".
static std::string formatError(const TimePair &pair) {
  if (pair.measuredNs <= 0)
    return "";
  return llvm::formatv("{0}{1:f1} %", pair.predictedNs >= pair.measuredNs ? "+" : "",
                       100 * (pair.predictedNs / pair.measuredNs - 1));
}

/// The rows to print, in the order of the step.
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

/// The sum of the rows' absolute errors as a share of the measured time.
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
  auto add = [&](const char *name, const TimePair &pair) {
    table.addRow(
        {name, formatTime(pair.predictedNs), formatTime(pair.measuredNs), formatError(pair)});
  };
  TimePair compute;
  for (const BlockTimes &block : blocks) {
    compute.predictedNs += block.predictedNs;
    compute.measuredNs += block.measuredNs;
  }
  std::map<std::string, TimePair> work, waits; // by kind
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
    table.addRow({block.name, std::string(getName(block.part)), formatTime(block.predictedNs),
                  formatTime(block.measuredNs), formatError(block)});
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

llvm::Error fsdp::explain::printMeasuredDiff(const ScheduleView &view, const MeasuredStep &measured,
                                             bool all, llvm::raw_ostream &os) {
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
