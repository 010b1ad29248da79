//===- Refit.cpp - Costs from the timelines of a run ----------------------===//

#include "Refit.h"

#include "Launches.h"
#include "RefitNetwork.h"
#include "RefitProfile.h"
#include "fsdp/CostModel/MeasuredCosts.h"

#include <cmath>
#include <limits>

using namespace fsdp;
using namespace fsdp::profile;
using namespace fsdp::explain;
using explain::RunCollective;

namespace {

/// A prediction of the step, and its collectives beside the measured ones.
struct Prediction {
  ExplainedModule module;
  std::vector<CollectiveTimes> collectives;
  MeasuredErrors errors;
};

/// All that has run, without contention.
struct Runs {
  std::vector<EntryRun> entries;
  std::vector<CollectiveRun> collectives;
};

} // namespace

static llvm::Expected<Prediction> predict(mlir::ModuleOp module, const MeasuredRun &measured,
                                          const Costs &costs) {
  auto model = cost::createCostModel(costs.profile, costs.network);
  if (!model)
    return model.takeError();
  ExplainOptions options;
  options.quickRatio = std::numeric_limits<double>::infinity(); // no lower bound is needed
  auto explained = explainModule(module, **model, options);
  if (failed(explained))
    return llvm::createStringError("the step is refused (see above)");
  auto collectives = pairCollectives(explained->view, measured);
  if (!collectives)
    return collectives.takeError();
  const auto blocks = pairBlocks(explained->problem, explained->view, measured);
  const MeasuredErrors errors = sumErrors(explained->view, measured, blocks, *collectives);
  return Prediction{std::move(*explained), std::move(*collectives), errors};
}

/// The name of the call or kernel that the entry runs; "" for other entries.
static std::string nameEntry(const PlannedStep &step, size_t entry) {
  mlir::Operation *op = step.operations[entry];
  if (auto call = llvm::dyn_cast_or_null<aten::CallOp>(op))
    return call.getCallee().str();
  if (auto launch = llvm::dyn_cast_or_null<LaunchOp>(op))
    return launch.getKernel().str();
  return "";
}

/// An error if the trace's entries are not those of the plan.
static llvm::Error checkEntries(const PlannedStep &step, const MeasuredRun &measured) {
  const auto numEntries = static_cast<int64_t>(step.operations.size());
  bool hasEntries = false;
  for (const MeasuredStep &ofStep : measured.steps)
    for (const MeasuredOperation &operation : ofStep.operations) {
      if (!operation.entry)
        continue;
      hasEntries = true;
      const int64_t entry = *operation.entry;
      auto fail = [&](const llvm::Twine &what) {
        return llvm::createStringError("the trace is of another step: its entry " +
                                       llvm::Twine(entry) + " is '" + operation.name +
                                       "', the module's " + what);
      };
      if (entry < 0 || entry >= numEntries)
        return fail("plan has " + llvm::Twine(numEntries) + " entries");
      // Traces leave out the namespaces of operators.
      const std::string name = nameEntry(step, static_cast<size_t>(entry));
      if (!name.empty() && !llvm::StringRef(name).ends_with(operation.name))
        return fail("is '" + name + "'");
    }
  if (!hasEntries)
    return llvm::createStringError(
        "the trace is of a simulated step: a refit needs that of a training binary");
  return llvm::Error::success();
}

/// `step` is the index of the measured step.
static void addRuns(const Prediction &prediction, const std::vector<Launch> &launches,
                    const MeasuredRun &measured, size_t step, Runs &runs) {
  const std::vector<MeasuredOperation> &operations = measured.steps[step].operations;
  std::vector<schedule::Interval> intervals;
  for (const MeasuredOperation &operation : operations)
    intervals.push_back(operation.getInterval());
  std::vector<RunCollective> collectives;
  for (auto [launch, times] : llvm::zip_equal(launches, prediction.collectives))
    collectives.push_back({launch.kind, times.intervals[step], launch.latencyNs});
  explain::UndisturbedStep undisturbed =
      explain::removeContention(prediction.module.problem.contention, intervals, collectives);
  for (auto [operation, duration] : llvm::zip_equal(operations, undisturbed.operations))
    if (operation.entry)
      runs.entries.push_back({static_cast<uint32_t>(*operation.entry), duration});
  // Computation that does not wait for a collective is beside it, also between two operations: the
  // collective may have taken its core.
  for (auto [duration, times] : llvm::zip_equal(undisturbed.collectives, prediction.collectives))
    duration.besideNs =
        std::max(duration.besideNs, duration.measuredNs - times.exposed.ofSteps[step]);
  for (auto [launch, duration] : llvm::zip_equal(launches, undisturbed.collectives))
    if (launch.costed)
      runs.collectives.push_back({*launch.costed, duration});
}

/// The largest relative difference between two networks' measured durations.
static double findChange(const cost::Network &left, const cost::Network &right) {
  if (left.measured.size() != right.measured.size())
    return 1;
  double change = 0;
  for (auto [a, b] : llvm::zip_equal(left.measured, right.measured)) {
    if (a.durations.size() != b.durations.size())
      return 1;
    for (auto [before, after] : llvm::zip_equal(a.durations, b.durations))
      change = std::max(change, std::abs(after.medianNs / before.medianNs - 1));
  }
  return change;
}

llvm::Expected<Refit> fsdp::profile::refit(mlir::ModuleOp module, const PlannedStep &step,
                                           const MeasuredRun &measured, const Costs &costs) {
  // What a collective would have taken alone depends on its latency, which the refit changes.
  constexpr int kMostRounds = 50;
  constexpr double kSmallChange = 1e-9;
  llvm::Expected<Prediction> prediction = predict(module, measured, costs);
  if (!prediction)
    return prediction.takeError();
  if (llvm::Error error = checkEntries(step, measured))
    return error;
  auto groups = GroupTable::build(module);
  if (failed(groups))
    return llvm::createStringError("the step is refused (see above)");
  Refit result{costs, prediction->errors, {}};
  for (int round = 0; round < kMostRounds; ++round) {
    const std::vector<Launch> launches =
        readLaunches(prediction->module, *groups, result.costs.network);
    Runs runs;
    for (size_t i = 0; i < measured.steps.size(); ++i)
      addRuns(*prediction, launches, measured, i, runs);
    cost::Network network = refitNetwork(costs.network, runs.collectives);
    const double change = findChange(result.costs.network, network);
    result.costs = {refitProfile(costs.profile, step, runs.entries), std::move(network)};
    prediction = predict(module, measured, result.costs);
    if (!prediction)
      return prediction.takeError();
    if (change < kSmallChange)
      break;
  }
  result.after = prediction->errors;
  return result;
}
