//===- Ranks.h - Runs a function on every rank of a communicator -*- C++ -*-===//

#ifndef FSDP_TEST_RUNTIME_COMM_RANKS_H
#define FSDP_TEST_RUNTIME_COMM_RANKS_H

#include "comm/Communicator.h"

#include <functional>
#include <string>

namespace fsdp::rt {

struct Ranks {
  std::string backend; // local, shm, gloo
  unsigned size;

  /// Inputs of a collective are summed in rank order.
  bool sumsInRankOrder() const { return backend != "gloo" || size <= 2; }
  bool detectsMismatches() const { return backend != "gloo"; }
};

/// Runs `body` with a communicator on each rank: threads for `local`, else processes. What the
/// bodies EXPECT counts for the test that calls this.
void onRanks(const Ranks &ranks, const std::function<void(Communicator &)> &body,
             CommunicatorOptions options = {});

} // namespace fsdp::rt

#endif // FSDP_TEST_RUNTIME_COMM_RANKS_H
