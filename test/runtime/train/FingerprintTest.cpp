//===- FingerprintTest.cpp - Plans are told apart -------------------------===//

#include "plan/Fingerprint.h"
#include "TinyPlan.h"

#include <gtest/gtest.h>

using namespace fsdp::rt;
using namespace fsdp::test;
using fsdp::plan::Layout;

TEST(Fingerprint, TellsPlansApart) {
  TinyPlan one(1, Layout::Flat), two(2, Layout::Flat), same(2, Layout::Flat),
      other(2, Layout::PerParam);
  auto of = [](const TinyPlan &plan) { return fingerprintOf(PlanView(plan.tables())); };
  EXPECT_EQ(of(two), of(same));
  EXPECT_NE(of(one), of(two));
  EXPECT_NE(of(two), of(other));
  fsdp_plan changed = two.tables();
  changed.optimizer.weight_decay = 0.5;
  EXPECT_NE(fingerprintOf(PlanView(changed)), of(two));
}
