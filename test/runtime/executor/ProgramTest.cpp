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
         program.evaluation.plan.optimizer = {FSDP_SGD, 0, 0.1, 0, 0, 0, 0, 0, 0};
       },
       "behind the step that trains a program has one evaluation"},
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
