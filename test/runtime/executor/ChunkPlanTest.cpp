//===- ChunkPlanTest.cpp - Validation of chunks and their gathers ---------===//

#include "../Optimizers.h"
#include "PlanBuilder.h"
#include "plan/PlanView.h"

#include <gtest/gtest.h>

#include <functional>

using namespace fsdp::test;
using fsdp::rt::validatePlan;

namespace {
/// 4 ranks; every 2 keep what is gathered in forward, each a half.
struct ChunkPlan {
  PlanBuilder builder;
  uint32_t loss, small, chunk, gather;

  ChunkPlan() {
    builder.plan.world_size = 4;
    builder.plan.optimizer = makeOptimizer(FSDP_SGD);
    uint32_t group = builder.addGroup("layers.0", "layers.0.w", {4, 8});
    builder.groupTable[group].chunk_ranks = 2;
    int64_t gathered = builder.allocate(128), kept = builder.allocate(64);
    uint32_t w = builder.addValue(FSDP_F32, {4, 8}, gathered);
    small = builder.addValue(FSDP_F32, {2, 8});
    loss = builder.addValue(FSDP_F32, {});
    int64_t gradients = builder.allocate(128), shard = builder.allocate(32);
    builder.wait(builder.allGather(group, gathered));
    chunk = static_cast<uint32_t>(builder.entryTable.size());
    builder.chunk(group, {w}, kept);
    builder.entry(FSDP_RELEASE).target = group;
    gather = static_cast<uint32_t>(builder.entryTable.size());
    builder.wait(builder.gatherChunks(group, kept, gathered));
    builder.call("sum", "", {value(w), none()}, {loss});
    builder.zero(gradients, 128);
    builder.wait(builder.reduceScatter(group, gradients, shard));
    builder.update(group, shard);
  }
  std::string error() { return validatePlan(builder.finish(loss)).message(); }
};
} // namespace

// What chunks and their gathers say fits their group and the ranks that hold it.
TEST(ChunkPlanTest, DamagedPlans) {
  EXPECT_EQ(ChunkPlan().error(), "");
  struct Case {
    std::function<void(ChunkPlan &)> damage;
    const char *error;
  };
  auto chunk = [](ChunkPlan &plan) -> fsdp_entry & { return plan.builder.entryTable[plan.chunk]; };
  auto gather = [](ChunkPlan &plan) -> fsdp_entry & {
    return plan.builder.entryTable[plan.gather];
  };
  auto communicators = [](ChunkPlan &plan) -> std::vector<fsdp_communicator> & {
    plan.builder.addCommunicators();
    return plan.builder.communicatorTable;
  };
  const Case cases[] = {
      {[](ChunkPlan &plan) { plan.builder.groupTable[0].chunk_ranks = 3; },
       "communicator 3 (chunk): 3 ranks with stride 1, of 4"},
      {[](ChunkPlan &plan) { plan.builder.groupTable[0].chunk_ranks = 4; },
       "group 0 (layers.0): chunks over 4 of 4 ranks"},
      {[&](ChunkPlan &plan) { chunk(plan).target = 1; }, "entry 2: group 1 of 1"},
      {[&](ChunkPlan &plan) { chunk(plan).bytes = 32; },
       "entry 2: a chunk of 32 bytes of f32, expected 64 of f32"},
      {[&](ChunkPlan &plan) { chunk(plan).dtype = FSDP_BF16; },
       "entry 2: a chunk of 64 bytes of bf16, expected 64 of f32"},
      {[&](ChunkPlan &plan) { chunk(plan).num_results = 0; },
       "entry 2: of 0 parameters, its group has 1"},
      {[&](ChunkPlan &plan) { chunk(plan).destination = INT64_MAX - 8; },
       "entry 2: it takes bytes"},
      // Another shape than the parameter.
      {[&](ChunkPlan &plan) { plan.builder.chunk(0, {plan.small}, 0); },
       "for parameter layers.0.w"},
      {[&](ChunkPlan &plan) { communicators(plan)[3].ranks = 1; },
       "1 ranks with stride 1 meet, expected 2 with stride 1"},
      {[&](ChunkPlan &plan) { communicators(plan)[3].ranks = 3; },
       "communicator 3 (chunk): 3 ranks with stride 1, of 4"},
      {[&](ChunkPlan &plan) { gather(plan).communicator = 4; }, "communicator 4 of 4"},
      {[&](ChunkPlan &plan) { gather(plan).communicator = 1; },
       "on stream 1, its communicator on 2"},
      {[&](ChunkPlan &plan) { communicators(plan)[1].by_copy_engine = 1; },
       "communicator 1 (reduce): by_copy_engine is 1 on stream 2"},
      {[&](ChunkPlan &plan) { communicators(plan)[3].by_copy_engine = 1; },
       "gathers chunks by copy engines"},
      {[&](ChunkPlan &plan) { gather(plan).bytes = 32; },
       "gathers 32 bytes per rank, a chunk has 64"},
      {[&](ChunkPlan &plan) { gather(plan).from_host = 1; },
       "of a host's arena, which were not stored there"},
      {[](ChunkPlan &plan) { plan.builder.entryTable[0].from_host = 1; },
       "entry 0: gathers f32 from 0 on the host, its group f32 from 0"},
  };
  for (const Case &damaged : cases) {
    ChunkPlan plan;
    damaged.damage(plan);
    EXPECT_NE(plan.error().find(damaged.error), std::string::npos)
        << plan.error() << "\nexpected: " << damaged.error;
  }
}
