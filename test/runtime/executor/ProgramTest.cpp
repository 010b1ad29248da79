//===- ProgramTest.cpp - Validation of plans over one state ---------------===//

#include "SmallPlan.h"
#include "plan/ValidateProgram.h"

#include <algorithm>
#include <functional>

using namespace fsdp::test;

namespace {
/// A training step and an evaluation over its state.
struct SmallProgram {
  SmallPlan training;
  PlanBuilder evaluation;
  uint32_t loss;

  SmallProgram() {
    fsdp_plan &plan = evaluation.plan;
    plan.world_size = 2;
    plan.step_kind = FSDP_EVALUATION;
    plan.optimizer = training.builder.plan.optimizer;
    uint32_t group = evaluation.addGroup("layers.0", "layers.0.w", {4, 8});
    evaluation.groupTable[group].state[0] = evaluation.groupTable[group].state[1] = -1;
    int64_t gathered = evaluation.allocate(128);
    uint32_t w = evaluation.addValue(FSDP_F32, {4, 8}, gathered);
    loss = evaluation.addValue(FSDP_F32, {});
    evaluation.wait(evaluation.allGather(group, gathered));
    evaluation.call("sum", "", {value(w), none()}, {loss});
    evaluation.entry(FSDP_RELEASE).target = group;
  }
  std::string error() {
    fsdp_plan &first = training.builder.finish(training.loss), &second = evaluation.finish(loss);
    if (sharesArena)
      first.arena_bytes = second.arena_bytes = std::max(first.arena_bytes, second.arena_bytes);
    first.next = &second;
    return fsdp::rt::validateProgram(first).message();
  }
  bool sharesArena = true;
};
} // namespace

// The evaluation's state is the training step's, at the same places.
TEST(ProgramTest, DamagedPrograms) {
  EXPECT_EQ(SmallProgram().error(), "");
  struct Case {
    std::function<void(SmallProgram &)> damage;
    const char *error;
  };
  const Case cases[] = {
      {[](SmallProgram &program) {
         program.evaluation.plan.step_kind = FSDP_TRAINING;
         program.evaluation.plan.optimizer = makeOptimizer(FSDP_SGD, {{"lr", {0.1}}});
       },
       "training step 2 has options of the optimizer, which the first training step has otherwise"},
      {[](SmallProgram &program) { program.training.builder.plan.step_kind = FSDP_EVALUATION; },
       "an evaluation updates nothing"},
      {[](SmallProgram &program) { program.evaluation.plan.step_kind = 7; },
       "a step of unknown kind 7"},
      {[](SmallProgram &program) { program.evaluation.groupTable[0].shard += 64; },
       "the place of group \"layers.0\""},
      {[](SmallProgram &program) { program.evaluation.groupTable[0].layout = 1; },
       "the layout of group \"layers.0\""},
      {[](SmallProgram &program) {
         program.evaluation.groupTable[0].name = program.evaluation.addString("layers.1");
       },
       "group \"layers.1\" of 1 parameters"},
      {[](SmallProgram &program) { program.sharesArena = false; }, "an arena of"},
      {[](SmallProgram &program) { program.evaluation.plan.clip_grad_norm = 1; },
       "an evaluation of 1 microbatches that clips to norm"},
  };
  for (const Case &damaged : cases) {
    SmallProgram program;
    damaged.damage(program);
    std::string error = program.error();
    EXPECT_NE(error.find(damaged.error), std::string::npos)
        << error << "\nexpected: " << damaged.error;
  }
}

namespace {
/// Two training steps over one state, and perhaps something behind them.
struct TwoShapes {
  SmallPlan first, second;
  SmallProgram evaluated;

  std::string error(bool evaluates) {
    fsdp_plan &one = first.builder.finish(first.loss), &two = second.builder.finish(second.loss);
    one.next = &two;
    two.next = evaluates ? &evaluated.evaluation.finish(evaluated.loss) : nullptr;
    if (evaluates)
      one.arena_bytes = two.arena_bytes = evaluated.evaluation.plan.arena_bytes =
          std::max(one.arena_bytes, evaluated.evaluation.plan.arena_bytes);
    return fsdp::rt::validateProgram(one).message();
  }
};
} // namespace

// A training step of another shape has the first one's state and updates it alike.
TEST(ProgramTest, DamagedShapes) {
  EXPECT_EQ(TwoShapes().error(false), "");
  EXPECT_EQ(TwoShapes().error(true), "");
  struct Case {
    std::function<void(TwoShapes &)> damage;
    const char *error;
  };
  const Case cases[] = {
      {[](TwoShapes &program) { program.second.builder.plan.optimizer.lr = 0.5; },
       "training step 2 has options of the optimizer"},
      {[](TwoShapes &program) {
         std::swap(program.second.builder.groupTable[0].state[0],
                   program.second.builder.groupTable[0].state[1]);
       },
       "training step 2 has the place of the optimizer's state of group \"layers.0\""},
      {[](TwoShapes &program) { program.second.builder.groupTable[0].shard_elements = 8; },
       "of training step 2: invalid plan"},
  };
  for (const Case &damaged : cases) {
    TwoShapes program;
    damaged.damage(program);
    std::string error = program.error(false);
    EXPECT_NE(error.find(damaged.error), std::string::npos)
        << error << "\nexpected: " << damaged.error;
  }
}

TEST(ProgramTest, BehindAnEvaluationAreEvaluations) {
  SmallProgram program;
  ASSERT_EQ(program.error(), "");
  fsdp_plan another = program.evaluation.plan;
  program.evaluation.plan.next = &another;
  EXPECT_EQ(fsdp::rt::validateProgram(program.training.builder.plan).message(), "");
  SmallPlan third;
  program.evaluation.plan.next = &third.builder.finish(third.loss);
  EXPECT_EQ(fsdp::rt::validateProgram(program.training.builder.plan).message(),
            "invalid plan: behind an evaluation a program has no step that trains");
}
