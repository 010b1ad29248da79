//===- MeasuredDiff.cpp - A predicted step beside a measured one ----------===//

#include "fsdp/Explain/MeasuredPairs.h"
#include "fsdp/Explain/Quantities.h"
#include "fsdp/Explain/TextTable.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <numeric>

using namespace fsdp::explain;
using Align = TextTable::Align;

/// The relative error of the prediction: "+3.1 %", "-0.4 %".
static std::string formatError(const TimePair &pair) {
  const double measuredNs = pair.getMeasuredNs();
  if (measuredNs <= 0)
    return "";
  double percent = 100 * (pair.predictedNs / measuredNs - 1);
  if (std::abs(percent) < 0.05)
    percent = 0; // not "-0.0"
  return llvm::formatv("{0}{1:f1} %", percent >= 0 ? "+" : "", percent);
}

/// The rows to print, in the order of the step.
template <typename Times>
static std::vector<Times> chooseRows(const std::vector<Times> &rows, bool all) {
  constexpr size_t kMostShown = 10;
  if (all || rows.size() <= kMostShown)
    return rows;
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return rows[a].getDifferenceNs() > rows[b].getDifferenceNs();
  });
  order.resize(kMostShown);
  std::sort(order.begin(), order.end());
  std::vector<Times> chosen;
  for (size_t index : order)
    chosen.push_back(rows[index]);
  return chosen;
}

static void printSources(const ScheduleView &view, const MeasuredRun &measured,
                         const std::vector<double> &steps, llvm::raw_ostream &os) {
  os << "predicted: " << view.labels.costSources << "\nmeasured: " << measured.source;
  if (steps.size() > 1)
    os << ", of " << formatTime(*llvm::min_element(steps)) << " to "
       << formatTime(*llvm::max_element(steps)) << "; medians";
  os << "\n\n";
}

static void printTotals(const MeasuredErrors &errors, llvm::raw_ostream &os) {
  TextTable table({{"", Align::Left},
                   {"predicted", Align::Right},
                   {"measured", Align::Right},
                   {"error", Align::Right}});
  auto add = [&](const char *name, const TimePair &pair) {
    table.addRow(
        {name, formatTime(pair.predictedNs), formatTime(pair.getMeasuredNs()), formatError(pair)});
  };
  add("step", errors.step);
  add("computation", errors.computation);
  if (errors.slowdownNs > 0)
    table.addRow({"  slowdown by collectives", formatTime(errors.slowdownNs), "", ""});
  if (errors.between.getMeasuredNs() > 0)
    table.addRow({"  between operations", "", formatTime(errors.between.getMeasuredNs()), ""});
  for (auto [kind, name, waiting] : {std::tuple("all_gather", "gathers", "waiting for gathers"),
                                     {"reduce_scatter", "reductions", "waiting for reductions"},
                                     {"all_reduce", "over replicas", "waiting for replicas"}})
    if (auto found = errors.collectives.find(kind); found != errors.collectives.end()) {
      add(name, found->second.work);
      add(waiting, found->second.exposed);
    }
  table.print(os);
}

static void printBlocks(const std::vector<BlockTimes> &blocks, bool all, llvm::raw_ostream &os) {
  TextTable table({{"computation of", Align::Left},
                   {"part", Align::Left},
                   {"predicted", Align::Right},
                   {"slowdown", Align::Right},
                   {"measured", Align::Right},
                   {"between", Align::Right},
                   {"error", Align::Right}});
  std::vector<BlockTimes> rows = chooseRows(blocks, all);
  for (const BlockTimes &block : rows)
    table.addRow({block.name, std::string(getName(block.part)), formatTime(block.predictedNs),
                  formatTime(block.slowdownNs), formatTime(block.getMeasuredNs()),
                  formatTime(block.between.getMeasuredNs()), formatError(block)});
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
                  formatTime(times.predictedNs), formatTime(times.getMeasuredNs()),
                  formatError(times), formatTime(times.exposed.predictedNs),
                  formatTime(times.exposed.getMeasuredNs())});
  os << '\n';
  table.print(os);
  if (rows.size() < collectives.size())
    os << "and " << collectives.size() - rows.size() << " that differ less\n";
}

/// The error of all waits together, and of each collective's alone, as shares of the step.
static void printWaits(const MeasuredErrors &errors, llvm::raw_ostream &os) {
  const double stepNs = errors.step.getMeasuredNs();
  os << "waits: predicted " << formatTime(errors.waits.predictedNs) << ", measured "
     << formatTime(errors.waits.getMeasuredNs()) << ", off by "
     << formatShare(errors.waits.getDifferenceNs() / stepNs)
     << " of the step; collective by collective, by "
     << formatShare(errors.waitsOneByOneNs / stepNs) << '\n';
}

llvm::Error fsdp::explain::printMeasuredDiff(const fsdp::schedule::Problem &problem,
                                             const ScheduleView &view, const MeasuredRun &measured,
                                             bool all, llvm::raw_ostream &os) {
  std::vector<BlockTimes> blocks = pairBlocks(problem, view, measured);
  llvm::Expected<std::vector<CollectiveTimes>> collectives = pairCollectives(view, measured);
  if (!collectives)
    return collectives.takeError();
  const MeasuredErrors errors = sumErrors(view, measured, blocks, *collectives);
  printSources(view, measured, errors.step.ofSteps, os);
  printTotals(errors, os);
  printBlocks(blocks, all, os);
  printCollectives(*collectives, all, os);
  os << '\n';
  if (!collectives->empty() && errors.step.getMeasuredNs() > 0)
    printWaits(errors, os);
  os << "sum of absolute errors: " << formatShare(errors.shareOfBlocks) << " of the computation";
  if (!collectives->empty())
    os << ", " << formatShare(errors.shareOfCollectives) << " of the collectives";
  os << '\n';
  return llvm::Error::success();
}
