//===- FindNan.cpp - The error of --find-nan ------------------------------===//

#include "train/FindNan.h"

#include <algorithm>
#include <vector>

using namespace fsdp::rt;

namespace {
/// A rank's message to the others.
struct Found {
  uint32_t found = 0, place = 0;
  char text[1016] = {};
};
} // namespace

Outcome fsdp::rt::tellNonFinite(Communicator &communicator, int64_t step,
                                const std::optional<NonFinite> &own) {
  Found mine;
  if (own) {
    mine.found = 1;
    mine.place = own->place;
    own->text.copy(mine.text, sizeof(mine.text) - 1);
  }
  std::vector<Found> all(communicator.size());
  if (Status status = communicator.allGather(kControlLane, &mine, all.data(), sizeof(mine));
      !status.ok())
    return {status, false};
  const Found *first = nullptr;
  for (const Found &one : all)
    if (one.found && (!first || one.place < first->place))
      first = &one;
  return {Status::error("step " + std::to_string(step) + ", rank " +
                        std::to_string(first - all.data()) + ": " + first->text),
          true};
}
