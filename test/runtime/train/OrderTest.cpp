//===- OrderTest.cpp - Ranks that run different plans ---------------------===//

#include "TinyPlan.h"
#include "comm/StandardLanes.h"
#include "plan/CollectiveOrder.h"
#include "train/OrderAgreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

using namespace fsdp::rt;
using fsdp::test::TinyPlan;
using testing::HasSubstr;

namespace {

/// A copy of a plan's entries, to be changed.
struct ChangedPlan {
  explicit ChangedPlan(const TinyPlan &tiny) : plan(tiny.tables()) {
    entries.assign(plan.entries, plan.entries + plan.num_entries);
    plan.entries = entries.data();
  }
  /// The entry of the `number`th collective, from 0.
  fsdp_entry &collective(size_t number) {
    return entries[collectiveEntries(PlanView(plan))[number]];
  }
  void drop(size_t number) {
    entries.erase(entries.begin() + collectiveEntries(PlanView(plan))[number]);
    plan.entries = entries.data();
    plan.num_entries = static_cast<uint32_t>(entries.size());
  }

  fsdp_plan plan;
  std::vector<fsdp_entry> entries;
};

std::vector<Outcome> compare(const std::vector<const fsdp_plan *> &plans) {
  auto communicators =
      makeLocalCommunicators(static_cast<unsigned>(plans.size()),
                             {.lanes = standardLanes(static_cast<unsigned>(plans.size()))});
  std::vector<Outcome> outcomes(plans.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < plans.size(); ++rank)
    threads.emplace_back(
        [&, rank] { outcomes[rank] = agreeOnOrder(*communicators[rank], PlanView(*plans[rank])); });
  for (std::thread &thread : threads)
    thread.join();
  return outcomes;
}

const TinyPlan &flat() {
  static const TinyPlan plan(2, fsdp::plan::Layout::Flat);
  return plan;
}

} // namespace

TEST(CollectiveOrder, EqualPlansAgree) {
  TinyPlan other(2, fsdp::plan::Layout::Flat);
  for (const Outcome &outcome : compare({&flat().tables(), &other.tables(), &flat().tables()}))
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
}

// Each property of a collective counts.
TEST(CollectiveOrder, EveryPropertyCounts) {
  const std::function<void(fsdp_entry &)> changes[] = {
      [](fsdp_entry &entry) { entry.kind = FSDP_REDUCE_SCATTER_START; },
      [](fsdp_entry &entry) { entry.stream = FSDP_REDUCE; },
      [](fsdp_entry &entry) { entry.phase = FSDP_BACKWARD; },
      [](fsdp_entry &entry) { entry.dtype = FSDP_BF16; },
      [](fsdp_entry &entry) { entry.target = 1 - entry.target; },
      [](fsdp_entry &entry) { entry.bytes += 4; },
      [](fsdp_entry &entry) { entry.count += 1; },
      [](fsdp_entry &entry) { entry.source += 64; },
      [](fsdp_entry &entry) { entry.destination += 64; },
      [](fsdp_entry &entry) { entry.reduce_op = FSDP_SUM; },
      [](fsdp_entry &entry) { entry.predivide = 2; },
      [](fsdp_entry &entry) { entry.postdivide = 2; },
  };
  std::vector<uint64_t> original = collectiveOrderHashes(PlanView(flat().tables()));
  ASSERT_GE(original.size(), 3u);
  for (const auto &change : changes) {
    ChangedPlan changed(flat());
    change(changed.collective(1));
    std::vector<uint64_t> hashes = collectiveOrderHashes(PlanView(changed.plan));
    EXPECT_EQ(hashes[0], original[0]);
    for (size_t i = 1; i < hashes.size(); ++i)
      EXPECT_NE(hashes[i], original[i]);
  }
}

// Every rank gets the same error, which names the first collective that differs as two ranks have
// it.
TEST(CollectiveOrder, NamesTheFirstDifference) {
  ChangedPlan changed(flat());
  changed.collective(1).bytes = 4242;
  for (const Outcome &outcome : compare({&flat().tables(), &flat().tables(), &changed.plan})) {
    EXPECT_TRUE(outcome.known);
    EXPECT_THAT(outcome.status.message(), HasSubstr("the ranks' plans differ: collective 2 of a "
                                                    "step is all_gather of group \"root\""));
    EXPECT_THAT(outcome.status.message(), HasSubstr("but all_gather of group \"root\""));
    EXPECT_THAT(outcome.status.message(), HasSubstr("4242 bytes of f32"));
    EXPECT_THAT(outcome.status.message(), HasSubstr("on rank 2"));
  }
}

// A plan that ends early differs where it ends.
TEST(CollectiveOrder, NamesWhatIsMissing) {
  ChangedPlan changed(flat());
  size_t last = collectiveOrderHashes(PlanView(flat().tables())).size() - 1;
  changed.drop(last);
  for (const Outcome &outcome : compare({&changed.plan, &flat().tables()})) {
    EXPECT_THAT(outcome.status.message(),
                HasSubstr("collective " + std::to_string(last + 1) +
                          " of a step is nothing more on rank 0 (" + std::to_string(last) +
                          " in all), but reduce_scatter of group "));
    EXPECT_THAT(outcome.status.message(), HasSubstr("on rank 1 (" + std::to_string(last + 1)));
  }
}

// A peer that is gone is an error that not every rank knows.
TEST(CollectiveOrder, PeerLeaves) {
  auto communicators = makeLocalCommunicators(2, {.lanes = standardLanes(2)});
  communicators[1].reset();
  Outcome outcome = agreeOnOrder(*communicators[0], PlanView(flat().tables()));
  EXPECT_FALSE(outcome.status.ok());
  EXPECT_FALSE(outcome.known);
}
