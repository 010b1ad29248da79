//===- SmallPlan.h - A plan with one of each entry --------------*- C++ -*-===//

#ifndef FSDP_TEST_SMALLPLAN_H
#define FSDP_TEST_SMALLPLAN_H

#include "../Optimizers.h"
#include "PlanBuilder.h"
#include "plan/PlanView.h"

#include <gtest/gtest.h>

namespace fsdp::test {

/// A valid plan of two ranks with one of each entry.
struct SmallPlan {
  PlanBuilder builder;
  uint32_t loss, group;
  int64_t gradients, shard;

  SmallPlan() {
    builder.plan.world_size = 2;
    builder.plan.optimizer = makeOptimizer(FSDP_ADAMW, {{"weight_decay", {0.1}}});
    group = builder.addGroup("layers.0", "layers.0.w", {4, 8});
    int64_t gathered = builder.allocate(128);
    uint32_t x = builder.addValue(FSDP_F32, {2, 8});
    builder.addInput("x", x);
    uint32_t w = builder.addValue(FSDP_F32, {4, 8}, gathered);
    uint32_t wt = builder.addStrided(FSDP_F32, {8, 4}, {1, 8}, gathered);
    uint32_t y = builder.addValue(FSDP_F32, {2, 4});
    loss = builder.addValue(FSDP_F32, {});
    gradients = builder.allocate(128);
    shard = builder.allocate(64);
    builder.wait(builder.allGather(group, gathered));
    builder.view("t", "", {value(w)}, {wt});
    builder.call("mm", "", {value(x), value(wt)}, {y});
    builder.entry(FSDP_RELEASE).target = group;
    builder.call("sum", "", {value(y), none()}, {loss});
    builder.zero(gradients, 64);
    builder.copy(w, builder.addValue(FSDP_F32, {4, 8}, gradients));
    builder.wait(builder.reduceScatter(group, gradients, shard));
    builder.update(group, shard);
  }
  std::string error() { return fsdp::rt::validatePlan(builder.finish(loss)).message(); }
  fsdp_entry &firstOf(fsdp_entry_kind kind) {
    for (fsdp_entry &entry : builder.entryTable)
      if (entry.kind == kind)
        return entry;
    ADD_FAILURE() << "no entry of kind " << kind;
    return builder.entryTable[0];
  }
};

} // namespace fsdp::test

#endif // FSDP_TEST_SMALLPLAN_H
