//===- ScheduleProblemTest.cpp - Steps as scheduling problems -------------===//
//
// A problem's peak is the memory planner's to the byte, and what is read from a scheduled module is
// what was written into it: for every model of test/Inputs, in several orders, under several caps.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/ScheduleProblem.h"
#include "fsdp/Schedule/ListSchedule.h"
#include "fsdp/Schedule/Optimize.h"
#include "fsdp/Schedule/Policies.h"
#include "fsdp/Transforms/ApplySchedule.h"
#include "fsdp/Transforms/PlaceGradients.h"
#include "passes/Pipelines.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

using namespace mlir;
using namespace fsdp;

namespace {

class ScheduleProblemTest : public testing::TestWithParam<std::string> {
protected:
  ScheduleProblemTest() : context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<FsdpDialect, aten::AtenDialect, func::FuncDialect>();
    costs = llvm::cantFail(cost::CostModel::create({.device = "h100"}));
  }

  /// The model of this test through the pipeline.
  OwningOpRef<ModuleOp> load(StringRef options) {
    PipelineOptions parsed;
    EXPECT_TRUE(succeeded(parsed.parseFromString(options)));
    OwningOpRef<ModuleOp> module =
        parseSourceFile<ModuleOp>(std::string(FSDP_TEST_INPUTS "/") + GetParam(), &context);
    PassManager manager(&context);
    buildPipeline(manager, parsed);
    EXPECT_TRUE(module && succeeded(manager.run(*module))) << options.str();
    return module;
  }

  /// A sharded module of `ranks` whose groups are all free to be kept.
  OwningOpRef<ModuleOp> loadSharded(int ranks, const std::string &more = "",
                                    FusionChoice fusion = FusionChoice::Off) {
    OwningOpRef<ModuleOp> module = load("mesh=dp=" + std::to_string(ranks) +
                                        " reshard-after-forward=auto up-to=sharded" + more);
    EXPECT_TRUE(run(*module, createFuse({.fusion = fusion})));
    placeGradients(*StepMemory::build(*module, ModulePhase::Sharded));
    return module;
  }

  template <typename... Passes> static bool run(ModuleOp module, Passes &&...passes) {
    PassManager manager(module.getContext());
    (manager.addPass(std::forward<Passes>(passes)), ...);
    return succeeded(manager.run(module));
  }

  static int64_t getPlannedPeak(ModuleOp module) {
    return module->getAttrOfType<IntegerAttr>(FsdpDialect::getPeakAttrName()).getInt();
  }

  /// What the module is read as: a valid plan whose peak is that of the memory planner.
  ScheduledStep readAndPlan(ModuleOp module, const std::string &what) {
    StepMemory memory = *StepMemory::build(module, ModulePhase::Scheduled);
    ScheduledStep step = *getScheduledStep(module, memory, *costs);
    EXPECT_EQ(step.problem.check().value_or(""), "") << what;
    EXPECT_EQ(schedule::verify(step.problem, step.plan).value_or(""), "") << what;
    EXPECT_TRUE(run(module, createPlanMemory(), createVerifyPlanned())) << what;
    EXPECT_EQ(schedule::peakOf(step.problem, step.plan).bytes, getPlannedPeak(module)) << what;
    return step;
  }

  /// Applies the plan to the module and compares what comes out with what went in.
  void applyAndCompare(ModuleOp module, UpdatePlacement placement, const schedule::Plan &plan,
                       const std::string &what) {
    StepMemory memory = *StepMemory::build(module, ModulePhase::Sharded);
    ScheduleProblem step =
        *getScheduleProblem(module, memory, *costs, placement, std::nullopt, mayOffloadChunks);
    applySchedule(module, memory.getBody(), step, plan);
    ASSERT_TRUE(run(module, createVerifyScheduled())) << what;
    ScheduledStep read = readAndPlan(module, what);
    EXPECT_EQ(schedule::peakOf(step.problem, plan).bytes, getPlannedPeak(module)) << what;
    EXPECT_DOUBLE_EQ(schedule::makespanNs(step.problem, plan),
                     schedule::makespanNs(read.problem, read.plan))
        << what;
    EXPECT_EQ(read.plan.gathers.size(), plan.gathers.size()) << what;
    EXPECT_EQ(read.plan.reductions.size(), plan.reductions.size()) << what;
    EXPECT_EQ(read.plan.shareLane, plan.shareLane) << what;
    EXPECT_TRUE(llvm::equal(read.plan.gathers, plan.gathers, [](const auto &a, const auto &b) {
      return a.byCopyEngine == b.byCopyEngine;
    })) << what;
    // Kept uses may be read as one with the use before them.
    for (int number : {1, 2})
      EXPECT_EQ(llvm::count(read.plan.chunked, number), llvm::count(plan.chunked, number)) << what;
  }

  /// Every use that may be gathered from chunks is, from each of its group's chunks in turn.
  static schedule::Decisions chunkAll(const schedule::Problem &problem) {
    schedule::Decisions decisions = schedule::decideByPolicy(problem, schedule::Policy::Fsdp2);
    std::vector<int32_t> previous = problem.previousUses();
    for (uint32_t use = 0; use < problem.uses.size(); ++use) {
      const size_t numChunks = problem.groupOfUse(use).chunks.size();
      const bool isPossible = previous[use] >= 0 && numChunks > 0;
      uint8_t number = isPossible ? 1 + use % numChunks : 0;
      if (number > 1 && problem.releasedAt(previous[use], number) > problem.uses[use].first)
        number = 1;
      decisions.chunked.push_back(number);
    }
    return decisions;
  }

  MLIRContext context;
  std::unique_ptr<cost::CostModel> costs;
  void compareChunkPlans();
  bool mayOffloadChunks = false;
};

} // namespace

/// Orders that passes make without a search, on one rank and on several.
TEST_P(ScheduleProblemTest, OrdersOfPasses) {
  for (const char *options :
       {"mesh=dp=2",
        "mesh=dp=2 prefetch=none",
        "mesh=dp=8 reshard-after-forward=true",
        "mesh=dp=4 reshard-after-forward=false",
        "mesh=dp=2 reshard-after-forward=auto",
        "mesh=dp=1",
        "mesh=dp=2 schedule=asap",
        "mesh=dp=2 schedule=auto",
        "mesh=dp=2 transport=copy-engine",
        "mesh=dp=2 schedule=asap layout=per-param transport=copy-engine",
        "mesh=dp=2 schedule=auto transport=auto device=h100",
        "mesh=dp=1 offload-optimizer=all",
        "mesh=dp=2 offload-optimizer=all",
        "mesh=dp=2 schedule=auto offload-optimizer=all",
        "mesh=dp=1 offload-activations=all",
        "mesh=dp=2 offload-activations=all",
        "mesh=dp=2 recompute=full offload-activations=all",
        "mesh=dp=2 schedule=auto offload-activations=all offload-optimizer=all",
        "mesh=dp=2 schedule=asap layout=per-param offload-activations=all",
        "mesh=dp=2 microbatches=2 microbatch-loss=sum offload-activations=all",
        "mesh=dp=2 layout=per-param",
        "mesh=dp=3 layout=per-param reshard-after-forward=true",
        "mesh=dp=1 layout=per-param",
        "mesh=dp=4 layout=per-param schedule=auto",
        "mesh=dp=2 layout=per-param schedule=asap",
        "mesh=replicate=2,shard=2 layout=per-param schedule=auto",
        "mesh=dp=2 microbatches=2 microbatch-loss=sum",
        "mesh=dp=2 microbatches=3 microbatch-loss=sum gradient-sync=last",
        "mesh=dp=2 microbatches=2 microbatch-loss=sum reshard-after-backward=false",
        "mesh=replicate=2,shard=2 microbatches=2 microbatch-loss=sum schedule=auto",
        "mesh=dp=2 microbatches=2 microbatch-loss=sum layout=per-param schedule=auto"})
    readAndPlan(*load(std::string(options) + " up-to=scheduled"), options);
}

/// Plans of every policy and of the search, from the least cap on, with both placements of updates.
TEST_P(ScheduleProblemTest, AppliedPlans) {
  using enum FusionChoice;
  for (auto [ranks, more, fusion] :
       {std::tuple(2, "", Off), std::tuple(2, "", Fast), std::tuple(2, "", Exact),
        std::tuple(8, "", Off), std::tuple(8, " transport=auto", Off),
        std::tuple(2, " transport=copy-engine", Off), std::tuple(2, " offload-optimizer=all", Off),
        std::tuple(2, " offload-activations=all", Off),
        std::tuple(2, " offload-activations=all", Fast),
        std::tuple(2, " offload-activations=all offload-optimizer=all", Off),
        std::tuple(4, " microbatches=2 microbatch-loss=sum offload-activations=all", Off),
        std::tuple(2, " microbatches=2 microbatch-loss=sum", Off),
        std::tuple(2, " microbatches=2 microbatch-loss=sum", Fast),
        std::tuple(4, " microbatches=3 microbatch-loss=sum gradient-sync=last", Off)}) {
    OwningOpRef<ModuleOp> sharded = loadSharded(ranks, more, fusion);
    StepMemory memory = *StepMemory::build(*sharded, ModulePhase::Sharded);
    for (UpdatePlacement placement : {UpdatePlacement::Interleaved, UpdatePlacement::AtEnd}) {
      ScheduleProblem step = *getScheduleProblem(*sharded, memory, *costs, placement);
      ASSERT_EQ(step.problem.check().value_or(""), "");
      int64_t leastBytes = step.problem.minimumPeak().bytes;
      for (double factor : {0.0, 1.0, 1.05, 1.2, 1.5}) {
        if (factor > 0)
          step.problem.memoryCapBytes = int64_t(factor * double(leastBytes));
        std::string what = std::to_string(ranks) + " ranks" + more +
                           (fusion == Off ? "" : ", fused") + ", cap " + std::to_string(factor);
        for (schedule::Policy policy : {schedule::Policy::Fsdp2, schedule::Policy::Asap}) {
          std::optional<schedule::Plan> plan = schedule::planByPolicy(step.problem, policy);
          if (!plan)
            continue;
          OwningOpRef<ModuleOp> module = sharded->clone();
          applyAndCompare(*module, placement, *plan,
                          what + ", " + std::string(schedule::getName(policy)));
        }
        schedule::OptimizeOptions options;
        options.simulationBudget = 200;
        std::optional<schedule::Outcome> outcome = schedule::optimize(step.problem, options);
        ASSERT_TRUE(outcome) << what;
        OwningOpRef<ModuleOp> module = sharded->clone();
        applyAndCompare(*module, placement, outcome->plan, what + ", auto");
      }
    }
  }
}

/// What the two ranks of a host keep together: the chunk's copy and its bytes are where the
/// scheduled step has them, and its gather is one of two ranks. The bound knows the choice. Chunks
/// may be on the host as well.
TEST_P(ScheduleProblemTest, ChunkPlans) { compareChunkPlans(); }
TEST_P(ScheduleProblemTest, ChunkPlansOnTheHost) {
  mayOffloadChunks = true;
  compareChunkPlans();
}

void ScheduleProblemTest::compareChunkPlans() {
  costs = llvm::cantFail(cost::CostModel::create(
      {.device = "h100", .network = FSDP_TEST_INPUTS "/two-per-host.json"}));
  for (const char *more : {"", " microbatches=2 microbatch-loss=sum", " offload-optimizer=all"}) {
    OwningOpRef<ModuleOp> sharded = loadSharded(4, more);
    StepMemory memory = *StepMemory::build(*sharded, ModulePhase::Sharded);
    for (UpdatePlacement placement : {UpdatePlacement::Interleaved, UpdatePlacement::AtEnd}) {
      ScheduleProblem step =
          *getScheduleProblem(*sharded, memory, *costs, placement, std::nullopt, mayOffloadChunks);
      ASSERT_EQ(step.problem.check().value_or(""), "");
      int64_t leastBytes = step.problem.minimumPeak().bytes;
      schedule::ListScheduleResult all = listSchedule(step.problem, chunkAll(step.problem));
      ASSERT_TRUE(all.plan);
      EXPECT_GT(llvm::count(all.plan->chunked, 1), 0);
      EXPECT_EQ(llvm::count(all.plan->chunked, 2) > 0, mayOffloadChunks);
      OwningOpRef<ModuleOp> module = sharded->clone();
      applyAndCompare(*module, placement, *all.plan, std::string("all chunked") + more);
      for (double factor : {1.0, 1.02, 1.1}) {
        step.problem.memoryCapBytes = int64_t(factor * double(leastBytes));
        std::string what = more + std::string(", cap ") + std::to_string(factor);
        schedule::OptimizeOptions options;
        options.simulationBudget = 200;
        std::optional<schedule::Outcome> outcome = schedule::optimize(step.problem, options);
        ASSERT_TRUE(outcome) << what;
        OwningOpRef<ModuleOp> searched = sharded->clone();
        applyAndCompare(*searched, placement, outcome->plan, what);
        StepMemory own = *StepMemory::build(*searched, {ModulePhase::Planned});
        ScheduledStep read = *getScheduledStep(*searched, own, *costs);
        read.problem.memoryCapBytes = step.problem.memoryCapBytes;
        EXPECT_LE(findBound(read, outcome->makespanNs, 1).makespanNs,
                  outcome->makespanNs * (1 + 1e-9))
            << what;
      }
    }
  }
}

/// In the per-param layout copies are operations. Those of gradients are taken to be made at once,
/// so that the scheduled step may take a little more or less than was planned, but never less than
/// the bound; what a plan keeps is not copied again.
TEST_P(ScheduleProblemTest, PerParamPlans) {
  for (const char *more :
       {" layout=per-param", " layout=per-param microbatches=2 microbatch-loss=sum"}) {
    OwningOpRef<ModuleOp> sharded = loadSharded(4, more);
    StepMemory memory = *StepMemory::build(*sharded, ModulePhase::Sharded);
    for (UpdatePlacement placement : {UpdatePlacement::Interleaved, UpdatePlacement::AtEnd}) {
      ScheduleProblem step = *getScheduleProblem(*sharded, memory, *costs, placement);
      ASSERT_EQ(step.problem.check().value_or(""), "");
      EXPECT_GT(step.sparedCopies.size(), 0u);
      for (double factor : {0.0, 1.0, 1.2}) {
        if (factor > 0)
          step.problem.memoryCapBytes = int64_t(factor * double(step.problem.minimumPeak().bytes));
        std::string what = more + std::string(", cap ") + std::to_string(factor);
        schedule::OptimizeOptions options;
        options.simulationBudget = 200;
        std::optional<schedule::Outcome> outcome = schedule::optimize(step.problem, options);
        ASSERT_TRUE(outcome) << what;
        double boundNs = findBound(step, outcome->makespanNs).makespanNs;
        OwningOpRef<ModuleOp> module = sharded->clone();
        StepMemory own = *StepMemory::build(*module, ModulePhase::Sharded);
        ScheduleProblem planned = *getScheduleProblem(*module, own, *costs, placement);
        applySchedule(*module, own.getBody(), planned, outcome->plan);
        ASSERT_TRUE(run(*module, createVerifyScheduled())) << what;
        ScheduledStep read = readAndPlan(*module, what);
        step.spareCopies(outcome->plan);
        double plannedNs = schedule::makespanNs(step.problem, outcome->plan);
        double readNs = schedule::makespanNs(read.problem, read.plan);
        EXPECT_LE(boundNs, readNs) << what;
        EXPECT_NEAR(readNs, plannedNs, 0.05 * plannedNs) << what;
        step.problem = getScheduleProblem(*sharded, memory, *costs, placement)->problem;
      }
    }
  }
}

/// Where a use begins or a reduction becomes ready there is a pause, which holds no more than what
/// crosses it, so that collectives can start on either side of a wait.
TEST_P(ScheduleProblemTest, Pauses) {
  OwningOpRef<ModuleOp> sharded = loadSharded(2);
  StepMemory memory = *StepMemory::build(*sharded, ModulePhase::Sharded);
  for (UpdatePlacement placement : {UpdatePlacement::Interleaved, UpdatePlacement::AtEnd}) {
    ScheduleProblem step = *getScheduleProblem(*sharded, memory, *costs, placement);
    auto isPause = [&](uint32_t operation) {
      const schedule::Operation &pause = step.problem.operations[operation];
      return !step.operations[operation] && step.lookup(operation) && pause.durationNs == 0 &&
             pause.liveBytes == pause.carriedBytes;
    };
    for (const schedule::Use &use : step.problem.uses) {
      uint32_t before = use.first;
      while (before > 0 && isa_and_nonnull<UpdateOp>(step.operations[before - 1]))
        --before;
      EXPECT_TRUE(before == 0 || isPause(before - 1)) << use.first;
    }
    for (const schedule::Reduction &reduction : step.problem.reductions)
      EXPECT_TRUE(isPause(reduction.ready)) << reduction.ready;
  }
}

/// Copies of optimizer state are apart from their updates as far as the cap allows: never so far
/// that the least peak is more than it.
TEST_P(ScheduleProblemTest, StateCopies) {
  OwningOpRef<ModuleOp> sharded = loadSharded(2, " offload-optimizer=all");
  StepMemory memory = *StepMemory::build(*sharded, ModulePhase::Sharded);
  for (UpdatePlacement placement : {UpdatePlacement::Interleaved, UpdatePlacement::AtEnd}) {
    ScheduleProblem tight = *getScheduleProblem(*sharded, memory, *costs, placement, 1);
    ScheduleProblem free = *getScheduleProblem(*sharded, memory, *costs, placement);
    int64_t leastBytes = tight.problem.minimumPeak().bytes;
    ScheduleProblem capped = *getScheduleProblem(*sharded, memory, *costs, placement, leastBytes);
    EXPECT_EQ(capped.problem.minimumPeak().bytes, leastBytes);
    EXPECT_GT(tight.exposedCopyNs, 0);
    EXPECT_LE(capped.exposedCopyNs, tight.exposedCopyNs);
    EXPECT_LT(free.exposedCopyNs, capped.exposedCopyNs + 1);
    ASSERT_EQ(free.hostCopies.size(), memory.groups.getGroups().size());
    uint32_t previous = 0;
    bool isEarly = false;
    for (const ScheduledHostCopy &copy : free.hostCopies) {
      EXPECT_LE(previous, copy.fetchLaunch); // two groups' state at most
      EXPECT_LE(copy.fetchLaunch, copy.fetchWaited);
      EXPECT_LT(copy.fetchWaited, copy.storeWaited);
      isEarly |= copy.fetchLaunch < copy.fetchWaited;
      previous = copy.fetchWaited;
    }
    EXPECT_TRUE(isEarly);
  }
}

/// Activations are in the arena for no longer than the pass has them there, and where the cap asks
/// for it not beyond their last and first readers.
TEST_P(ScheduleProblemTest, ActivationCopies) {
  OwningOpRef<ModuleOp> sharded = loadSharded(2, " offload-activations=all");
  StepMemory memory = *StepMemory::build(*sharded, ModulePhase::Sharded);
  auto build = [&](std::optional<int64_t> capBytes) {
    return *getScheduleProblem(*sharded, memory, *costs, UpdatePlacement::AtEnd, capBytes);
  };
  ScheduleProblem free = build(std::nullopt), tight = build(1);
  if (free.hostCopies.empty())
    GTEST_SKIP() << "no block waits long enough";
  int64_t leastBytes = tight.problem.minimumPeak().bytes;
  ScheduleProblem capped = build(leastBytes);
  EXPECT_EQ(capped.problem.minimumPeak().bytes, leastBytes);
  EXPECT_LE(free.exposedCopyNs, capped.exposedCopyNs + 1);
  EXPECT_LE(leastBytes, free.problem.minimumPeak().bytes);
  bool isApart = false;
  for (auto [apart, together] : llvm::zip_equal(free.hostCopies, tight.hostCopies)) {
    EXPECT_EQ(apart.storeLaunch, together.storeLaunch);
    EXPECT_EQ(apart.fetchWaited, together.fetchWaited);
    EXPECT_LE(apart.storeLaunch, apart.storeWaited);
    EXPECT_LE(apart.storeWaited, apart.fetchLaunch);
    EXPECT_LE(apart.fetchLaunch, apart.fetchWaited);
    isApart |= apart.storeLaunch < apart.storeWaited && apart.fetchLaunch < apart.fetchWaited;
  }
  EXPECT_TRUE(isApart);
}

/// One byte below the least peak nothing fits; at the least peak something does.
TEST_P(ScheduleProblemTest, LeastPeak) {
  OwningOpRef<ModuleOp> sharded = loadSharded(2);
  StepMemory memory = *StepMemory::build(*sharded, ModulePhase::Sharded);
  ScheduleProblem step =
      *getScheduleProblem(*sharded, memory, *costs, UpdatePlacement::Interleaved);
  int64_t leastBytes = step.problem.minimumPeak().bytes;
  step.problem.memoryCapBytes = leastBytes - 1;
  EXPECT_FALSE(schedule::optimize(step.problem, {}));
  step.problem.memoryCapBytes = leastBytes;
  std::optional<schedule::Outcome> outcome = schedule::optimize(step.problem, {});
  ASSERT_TRUE(outcome);
  applySchedule(*sharded, memory.getBody(), step, outcome->plan);
  ASSERT_TRUE(run(*sharded, createPlanMemory(), createVerifyPlanned()));
  EXPECT_EQ(getPlannedPeak(*sharded), leastBytes);
}

/// Modules that somebody edited: collectives, reshards and updates moved to other places, as far as
/// the verifiers allow.
TEST_P(ScheduleProblemTest, EditsByHand) {
  std::mt19937 random(7);
  unsigned numRead = 0;
  for (const char *options :
       {"mesh=dp=2 up-to=scheduled", "mesh=dp=2 schedule=auto budget=100 up-to=scheduled",
        "mesh=dp=2 schedule=auto budget=100 fusion=fast up-to=scheduled",
        "mesh=dp=2 offload-optimizer=all up-to=scheduled",
        "mesh=dp=2 offload-activations=all up-to=scheduled"}) {
    OwningOpRef<ModuleOp> scheduled = load(options);
    for (int trial = 0; trial < 100; ++trial) {
      ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
      OwningOpRef<ModuleOp> module = scheduled->clone();
      std::vector<Operation *> all;
      std::vector<size_t> movable;
      for (auto step : module->getOps<func::FuncOp>())
        for (Operation &op : step.getOps()) {
          if (isa<AllGatherStartOp, AllGatherWaitOp, ReshardOp, ReduceScatterStartOp,
                  ReduceScatterWaitOp, UpdateOp, FetchStateStartOp, FetchStateWaitOp,
                  StoreStateStartOp, StoreStateWaitOp, StoreStartOp, StoreWaitOp, FetchStartOp,
                  FetchWaitOp>(op))
            movable.push_back(all.size());
          all.push_back(&op);
        }
      for (unsigned edit = 0; edit <= random() % 3; ++edit) {
        size_t place = movable[random() % movable.size()];
        size_t first = place < 20 ? 0 : place - 20;
        size_t last = std::min(place + 20, all.size() - 1);
        all[place]->moveBefore(all[first + random() % (last - first + 1)]);
      }
      if (failed(verify(*module)) || !run(*module, createVerifyScheduled()))
        continue;
      StepMemory memory = *StepMemory::build(*module, ModulePhase::Scheduled);
      if (failed(getScheduledStep(*module, memory, *costs)))
        continue; // reductions waited for in another order than they are started
      readAndPlan(*module, std::string(options) + ", trial " + std::to_string(trial));
      ++numRead;
    }
  }
  EXPECT_GT(numRead, 20u);
}

static std::vector<std::string> listModels() {
  std::vector<std::string> models;
  for (const auto &entry : std::filesystem::directory_iterator(FSDP_TEST_INPUTS))
    if (entry.path().extension() == ".mlir")
      models.push_back(entry.path().filename().string());
  std::sort(models.begin(), models.end());
  return models;
}

INSTANTIATE_TEST_SUITE_P(Models, ScheduleProblemTest, testing::ValuesIn(listModels()),
                         [](const auto &info) {
                           return std::filesystem::path(info.param).stem().string();
                         });
