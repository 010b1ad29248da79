//===- RefitTest.cpp - Costs from the timelines of a run ------------------===//

#include "Refit.h"

#include "RefitCurve.h"
#include "RefitNetwork.h"
#include "RefitProfile.h"
#include "Steps.h"
#include "fsdp/Analysis/ScheduleProblem.h"
#include "fsdp/CostModel/MeasuredCosts.h"
#include "fsdp/Explain/ExplainModule.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Pipelines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

using namespace fsdp;
using namespace fsdp::profile;
using namespace fsdp::explain;
using cost::SizedDuration;
using explain::Undisturbed;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

constexpr double kRounding = 1e-7; // relative

/// Durations of a step over pairs of ranks, which no two calls share.
class Truth {
public:
  explicit Truth(const PlannedStep &step) {
    costs.profile.device = "cpu";
    costs.profile.copies = {{4096, 700}, {1 << 20, 90'000}};
    for (mlir::Operation *op : step.operations)
      if (auto call = llvm::dyn_cast_or_null<aten::CallOp>(op))
        addCall(call);
      else if (auto launch = llvm::dyn_cast_or_null<LaunchOp>(op))
        addKernel(launch.getDeclaration());
    costs.profile.updates = {{OptimizerKind::AdamW, "f32", {{16, 900}, {4096, 5'000}}}};
    cost::Network &network = costs.network;
    network.measured = {{cost::CollectiveKind::AllGather, 2, 9'000, 0.25, 0, makeCurve(1)},
                        {cost::CollectiveKind::ReduceScatter, 2, 9'000, 0.25, 0, makeCurve(1.25)},
                        {cost::CollectiveKind::AllReduce, 2, 9'000, 0.25, 0, makeCurve(1.5)}};
    network.contention = {
        .lanes = 1.5, .computation = 1.25, .gathers = 1.5, .reductions = 1.25, .several = 1.75};
  }

  Costs costs;

private:
  double next() { return 1'000 + 137 * static_cast<double>(count++); }
  void addCall(aten::CallOp call) {
    cost::ProfileKey key = cost::ProfileKey::of(call);
    if (known.insert(key.str()).second)
      costs.profile.calls.push_back({std::move(key), next(), 0, 20, 64});
  }
  void addKernel(KernelOp kernel) {
    cost::KernelKey key = cost::KernelKey::of(kernel);
    if (known.insert(key.str()).second)
      costs.profile.kernels.push_back({std::move(key), kernel.getSymName().str(), next(), 0, 20});
  }
  static std::vector<SizedDuration> makeCurve(double factor) {
    std::vector<SizedDuration> curve;
    for (int64_t bytes = 256; bytes <= 1 << 20; bytes *= 4)
      curve.push_back({bytes, factor * (9'000 + 0.25 * static_cast<double>(bytes)), 0, 20});
    return curve;
  }
  std::set<std::string> known;
  int count = 0;
};

Costs makeWrong(Costs costs) {
  for (cost::ProfiledCall &call : costs.profile.calls)
    call.medianNs *= 1.5;
  for (cost::ProfiledKernel &kernel : costs.profile.kernels)
    kernel.medianNs *= 1.5;
  for (cost::ProfiledUpdate &update : costs.profile.updates)
    for (SizedDuration &duration : update.durations)
      duration.medianNs *= 1.5;
  for (cost::MeasuredCollective &collective : costs.network.measured) {
    collective.latencyNs *= 2;
    collective.nsPerByte *= 2;
    for (SizedDuration &duration : collective.durations)
      duration.medianNs *= 2;
  }
  return costs;
}

/// The runs of a step that takes what `costs` predict.
MeasuredRun simulateRun(const PlannedStep &step, const Costs &costs) {
  mlir::ModuleOp module = *step.module;
  auto model = llvm::cantFail(cost::createCostModel(costs.profile, costs.network));
  ExplainedModule explained = *explainModule(module, *model, {});
  auto memory = StepMemory::build(module, {ModulePhase::Planned});
  const std::vector<mlir::Operation *> operations =
      getScheduledStep(module, *memory, *model)->operations;
  std::map<mlir::Operation *, int64_t> entryOf;
  std::vector<int64_t> updates;
  for (size_t entry = 0; entry < step.operations.size(); ++entry)
    if (step.operations[entry])
      entryOf[step.operations[entry]] = static_cast<int64_t>(entry);
    else if (step.tables.entries[entry].kind == FSDP_UPDATE)
      updates.push_back(static_cast<int64_t>(entry));
  const ScheduleView &view = explained.view;
  MeasuredStep measured;
  measured.stepNs = view.makespanNs;
  size_t update = 0;
  for (size_t i = 0; i < operations.size(); ++i) {
    const auto [startNs, endNs] = view.operations[i];
    const OperationLabel &label = view.labels.operations[i];
    if (llvm::isa_and_nonnull<UpdateOp>(operations[i]))
      entryOf[operations[i]] = updates[update++];
    if (endNs <= startNs)
      continue;
    MeasuredOperation operation{
        {startNs, endNs - startNs}, label.module, label.name, label.part, /*beforeNs=*/0, {}};
    if (auto launch = llvm::dyn_cast_or_null<LaunchOp>(operations[i]))
      operation.name = launch.getKernel().str();
    if (auto found = entryOf.find(operations[i]); found != entryOf.end())
      operation.entry = found->second;
    measured.operations.push_back(std::move(operation));
  }
  auto addCollective = [&](llvm::StringRef kind, const CollectiveView &collective,
                           schedule::Interval interval, double exposedNs) {
    measured.collectives.push_back({{interval.startNs, interval.endNs - interval.startNs},
                                    kind.str() + " " + joinNames(collective.groups),
                                    exposedNs,
                                    interval.endNs});
  };
  for (const CollectiveView &collective : view.collectives) {
    addCollective(getName(collective.kind), collective, collective.interval, collective.exposedNs);
    if (collective.across)
      addCollective("all_reduce", collective, *collective.across, collective.exposedAcrossNs);
  }
  const std::string mesh = view.labels.facts.front().second;
  return {mesh, "measured, step 3", {measured, measured}};
}

/// With `merges`, scheduled for a device on which launches of several groups are faster.
StepOfFile readLlama(llvm::StringRef mesh = "dp=2", bool merges = false) {
  return readStep("Inputs/llama.mlir", 0, FusionChoice::Auto, [&](mlir::ModuleOp module) {
    PipelineOptions options;
    options.mesh = mesh.str();
    if (merges) {
      options.schedule = ScheduleChoice::Auto;
      options.device = "h100";
    }
    options.fusion = FusionChoice::Exact;
    mlir::PassManager manager(module.getContext());
    buildPipeline(manager, options);
    ASSERT_TRUE(succeeded(manager.run(module)));
  });
}

std::string messageOf(llvm::Expected<Refit> result) {
  return result ? "" : llvm::toString(result.takeError());
}

void expectSame(const cost::Profile &left, const cost::Profile &right) {
  for (auto [a, b] : llvm::zip_equal(left.calls, right.calls))
    EXPECT_NEAR(a.medianNs, b.medianNs, kRounding * b.medianNs) << a.key.str();
  for (auto [a, b] : llvm::zip_equal(left.kernels, right.kernels))
    EXPECT_NEAR(a.medianNs, b.medianNs, kRounding * b.medianNs) << a.name;
}

void expectSameNetwork(const cost::Network &left, const cost::Network &right) {
  for (auto [a, b] : llvm::zip_equal(left.measured, right.measured))
    for (auto [x, y] : llvm::zip_equal(a.durations, b.durations))
      EXPECT_NEAR(x.medianNs, y.medianNs, kRounding * y.medianNs) << x.size;
}

/// A second refit to the same run changes nothing.
void expectSameAgain(const PlannedStep &step, const MeasuredRun &run, const Costs &costs) {
  llvm::Expected<Refit> again = refit(*step.module, step, run, costs);
  ASSERT_TRUE(bool(again)) << llvm::toString(again.takeError());
  expectSame(again->costs.profile, costs.profile);
  expectSameNetwork(again->costs.network, costs.network);
}

} // namespace

// From costs that are all wrong, a refit to a run finds the costs of that run, through contention.
TEST(Refit, FindsTheDurationsOfARun) {
  for (auto [mesh, merges] :
       {std::pair("dp=2", false), {"dp=2", true}, {"replicate=2,shard=2", false}}) {
    SCOPED_TRACE(mesh);
    StepOfFile file = readLlama(mesh, merges);
    const PlannedStep &step = file.planned;
    const Costs truth = Truth(step).costs;
    ASSERT_GT(truth.profile.calls.size(), 10u);
    ASSERT_GT(truth.profile.kernels.size(), 1u);
    const MeasuredRun run = simulateRun(step, truth);
    llvm::Expected<Refit> found = refit(*step.module, step, run, makeWrong(truth));
    ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
    expectSame(found->costs.profile, truth.profile);
    EXPECT_EQ(found->costs.profile.calls[0].temporaryBytes, 64);
    EXPECT_GT(found->before.shareOfBlocks, 0.3);
    EXPECT_GT(found->before.shareOfCollectives, 0.3);
    EXPECT_LT(found->after.shareOfBlocks, kRounding);
    EXPECT_LT(found->after.shareOfCollectives, kRounding);
    const double stepNs = run.steps[0].stepNs;
    EXPECT_NEAR(found->after.step.predictedNs, stepNs, kRounding * stepNs);
    expectSameAgain(step, run, found->costs);
  }
}

// The duration of several collectives, one after another, says nothing of one.
TEST(Refit, LeavesLaunchesOfSeveral) {
  StepOfFile file = readLlama("dp=2", /*merges=*/true);
  const PlannedStep &step = file.planned;
  Costs truth = Truth(step).costs;
  truth.network.coalesces = false;
  const Costs wrong = makeWrong(truth);
  const MeasuredRun run = simulateRun(step, truth);
  llvm::Expected<Refit> found = refit(*step.module, step, run, wrong);
  ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
  expectSameNetwork(found->costs.network, wrong.network);
}

// A run of something else is refused.
TEST(Refit, RefusesOtherSteps) {
  StepOfFile file = readLlama();
  const PlannedStep &step = file.planned;
  const Costs costs = Truth(step).costs;
  auto refuse = [&](void (*change)(MeasuredRun &)) {
    MeasuredRun run = simulateRun(step, costs);
    change(run);
    return messageOf(refit(*step.module, step, run, costs));
  };
  EXPECT_EQ(refuse([](MeasuredRun &run) { run.mesh = "dp = 4"; }),
            "the trace is of mesh 'dp = 4', the module of mesh 'dp = 2'");
  EXPECT_THAT(refuse([](MeasuredRun &run) { run.steps[1].collectives.pop_back(); }),
              HasSubstr("the trace is of another schedule: it lacks 'reduce_scatter"));
  EXPECT_THAT(refuse([](MeasuredRun &run) { run.steps[0].operations[0].name = "bmm.default"; }),
              HasSubstr("is 'bmm.default', the module's is '"));
  EXPECT_THAT(refuse([](MeasuredRun &run) { run.steps[0].operations[0].entry = 1'000'000; }),
              AllOf(HasSubstr("the trace is of another step: its entry 1000000 is '"),
                    HasSubstr("the module's plan has ")));
  EXPECT_EQ(refuse([](MeasuredRun &run) {
              for (MeasuredStep &step : run.steps)
                for (MeasuredOperation &operation : step.operations)
                  operation.entry.reset();
            }),
            "the trace is of a simulated step: a refit needs that of a training binary");
}

// Executions without a collective beside them count alone; else those that are known; else none.
TEST(Refit, PrefersUndisturbedExecutions) {
  StepOfFile file = readLlama();
  const PlannedStep &step = file.planned;
  const cost::Profile profile = Truth(step).costs.profile;
  const auto first = llvm::find_if(step.operations, [](mlir::Operation *op) { return op; });
  const auto entry = static_cast<uint32_t>(first - step.operations.begin());
  auto durationAfter = [&](std::vector<Undisturbed> runs) {
    std::vector<EntryRun> ofEntry;
    for (const Undisturbed &run : runs)
      ofEntry.push_back({entry, run});
    const cost::Profile refitted = refitProfile(profile, step, ofEntry);
    const cost::ProfiledCall &call = refitted.calls.front();
    EXPECT_EQ(call.key.str(), cost::ProfileKey::of(llvm::cast<aten::CallOp>(*first)).str());
    for (size_t i = 1; i < profile.calls.size(); ++i)
      EXPECT_EQ(refitted.calls[i].medianNs, profile.calls[i].medianNs);
    return call.medianNs;
  };
  const Undisturbed alone{100, 100, 0}, known{500, 300, 400}, unknown{500, 200, 500};
  EXPECT_EQ(durationAfter({alone, known, known, unknown}), 100);
  EXPECT_EQ(durationAfter({known, unknown, unknown}), 300);
  // One in six is an exception.
  EXPECT_EQ(durationAfter({{5000, 5000, 0}, known, known, known, known, known}), 300);
  EXPECT_EQ(durationAfter({unknown}), profile.calls.front().medianNs);
  EXPECT_EQ(durationAfter({Undisturbed()}), profile.calls.front().medianNs);
}

// Sizes that have not run are as wrong as the nearest that have.
TEST(Refit, ScalesOtherSizes) {
  const std::vector<SizedDuration> curve = {{1, 10, 0.5, 7}, {16, 20}, {64, 40}, {1024, 100}};
  const std::vector<SizedDuration> measured = {{4, 30, 0.25, 3}, {64, 120}};
  std::vector<std::pair<int64_t, double>> points;
  for (const SizedDuration &point :
       refitCurve(curve, measured, [](int64_t size) { return size == 4 ? 15 : -1; }))
    points.emplace_back(point.size, point.medianNs);
  EXPECT_THAT(points, ElementsAre(std::pair(1, 20.), std::pair(4, 30.), std::pair(16, 50.),
                                  std::pair(64, 120.), std::pair(1024, 300.)));
}

// A few executions alone are exceptions.
TEST(Refit, LeavesOutInterruptions) {
  using cost::CollectiveKind;
  const cost::Network before = llvm::cantFail(cost::loadNetwork("dgx-h100"));
  const SizedCollective gather{CollectiveKind::AllGather, 8, 1, 1 << 20};
  const Undisturbed known{5000, 3000, 4000}, interrupted{90'000, 90'000, 0};
  auto durationAfter = [&](size_t numKnown, size_t numInterrupted) {
    std::vector<CollectiveRun> runs(numKnown, {gather, known});
    runs.insert(runs.end(), numInterrupted, {gather, interrupted});
    return refitNetwork(before, runs).getCost(gather.kind, gather.ranks).durationNs(gather.bytes);
  };
  EXPECT_NEAR(durationAfter(9, 1), 3000, kRounding * 3000);
  EXPECT_NEAR(durationAfter(4, 1), 90'000, kRounding * 90'000);
}

// The levels of a network tell the cost of ranks with a stride; neighbours get a curve.
TEST(Refit, AddsMeasurementsToLevels) {
  using cost::CollectiveKind;
  const cost::Network before = llvm::cantFail(cost::loadNetwork("dgx-h100"));
  const int64_t bytes = 100'000'000;
  const double ns = 3 * before.getCost(CollectiveKind::AllGather, 8).durationNs(bytes);
  const cost::Network after =
      refitNetwork(before, {{{CollectiveKind::AllGather, 8, 1, bytes}, {ns, ns, 0}},
                            {{CollectiveKind::AllReduce, 2, 8, bytes}, {ns, ns, 0}}});
  EXPECT_NEAR(after.getCost(CollectiveKind::AllGather, 8).durationNs(bytes), ns, kRounding * ns);
  EXPECT_NEAR(after.getCost(CollectiveKind::AllGather, 8).durationNs(1 << 20),
              3 * before.getCost(CollectiveKind::AllGather, 8).durationNs(1 << 20), 1);
  for (auto [kind, ranks, stride] : {std::tuple(CollectiveKind::AllReduce, 2, 8),
                                     {CollectiveKind::ReduceScatter, 8, 1},
                                     {CollectiveKind::AllGather, 16, 1}})
    EXPECT_EQ(after.getCost(kind, ranks, stride).durationNs(bytes),
              before.getCost(kind, ranks, stride).durationNs(bytes));
}
