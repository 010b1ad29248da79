//===- OrderAgreement.cpp - One order of collectives on all ranks ---------===//

#include "train/OrderAgreement.h"
#include "plan/CollectiveOrder.h"

#include <algorithm>

using namespace fsdp::rt;

namespace {
// The collective that a rank issues at one position of the order.
struct Place {
  char text[512] = {};
};

struct OrderSummary {
  uint64_t plans = 0, collectives = 0, hash = 0;
  bool operator==(const OrderSummary &) const = default;
};
} // namespace

/// Finds the first position at which the orders of two ranks differ. Called by all ranks.
static Outcome orderMismatch(Communicator &communicator, const PlanView &plan,
                             const std::vector<OrderSummary> &summaries) {
  unsigned size = communicator.size();
  size_t shortest = summaries[0].collectives;
  for (const OrderSummary &summary : summaries)
    shortest = std::min<size_t>(shortest, summary.collectives);
  std::vector<uint64_t> own = collectiveOrderHashes(plan), all(size * shortest);
  Status status =
      communicator.allGather(kControlLane, own.data(), all.data(), shortest * sizeof(uint64_t));
  if (!status.ok())
    return {status, false};
  size_t first = 0;
  auto agreed = [&](size_t place) {
    for (unsigned rank = 1; rank < size; ++rank)
      if (all[rank * shortest + place] != all[place])
        return false;
    return true;
  };
  while (first < shortest && agreed(first))
    ++first;

  Place mine;
  std::vector<uint32_t> entries = collectiveEntries(plan);
  std::string text = first < entries.size()
                         ? describeCollectiveEntry(plan, plan.entries()[entries[first]])
                         : "nothing more";
  text.copy(mine.text, sizeof(mine.text) - 1);
  std::vector<Place> places(size);
  status = communicator.allGather(kControlLane, &mine, places.data(), sizeof(Place));
  if (!status.ok())
    return {status, false};
  unsigned other = 1;
  auto differs = [&](unsigned rank) {
    return first < shortest ? all[rank * shortest + first] != all[first]
                            : summaries[rank].collectives != summaries[0].collectives;
  };
  while (!differs(other)) // ends, since the summaries differ
    ++other;
  return {Status::error("the ranks' plans differ: collective " + std::to_string(first + 1) +
                        " of a step is " + places[0].text + " on rank 0 (" +
                        std::to_string(summaries[0].collectives) + " in all), but " +
                        places[other].text + " on rank " + std::to_string(other) + " (" +
                        std::to_string(summaries[other].collectives) +
                        "): start the same binary on every rank"),
          true};
}

static Outcome agreeOnOne(Communicator &communicator, const PlanView &plan, uint64_t plans) {
  std::vector<uint64_t> hashes = collectiveOrderHashes(plan);
  OrderSummary own{plans, hashes.size(), hashes.empty() ? 0 : hashes.back()};
  std::vector<OrderSummary> summaries(communicator.size());
  Status status = communicator.allGather(kControlLane, &own, summaries.data(), sizeof(own));
  if (!status.ok())
    return {status, false};
  for (size_t rank = 0; rank < summaries.size(); ++rank)
    if (summaries[rank].plans != summaries[0].plans)
      return {Status::error("the ranks' plans differ: " + std::to_string(summaries[0].plans) +
                            " steps on rank 0, but " + std::to_string(summaries[rank].plans) +
                            " on rank " + std::to_string(rank) +
                            ": start the same binary on every rank"),
              true};
  for (const OrderSummary &summary : summaries)
    if (summary != summaries[0])
      return orderMismatch(communicator, plan, summaries);
  return {};
}

Outcome fsdp::rt::agreeOnOrder(Communicator &communicator, const PlanView &first) {
  uint64_t plans = 0;
  for (const fsdp_plan *plan = &first.tables(); plan; plan = plan->next)
    ++plans;
  for (const fsdp_plan *plan = &first.tables(); plan; plan = plan->next)
    if (Outcome outcome = agreeOnOne(communicator, PlanView(*plan), plans); !outcome.status.ok())
      return outcome;
  return {};
}
