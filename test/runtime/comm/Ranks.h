//===- Ranks.h - Runs a function on every rank of a communicator -*- C++ -*-===//

#ifndef FSDP_TEST_RUNTIME_COMM_RANKS_H
#define FSDP_TEST_RUNTIME_COMM_RANKS_H

#include "comm/Rendezvous.h"
#include "comm/StandardLanes.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <functional>
#include <ostream>
#include <string>
#include <sys/types.h>

namespace fsdp::rt {

struct Ranks {
  std::string backend; // local, shm, gloo, nccl
  unsigned size;

  /// Whether reductions add in the order of the ranks.
  bool sumsInRankOrder() const { return backend == "local" || backend == "shm" || size <= 2; }
};

/// Why `ranks` cannot run on this machine; "" if they can.
std::string whyNot(const Ranks &ranks);

inline void PrintTo(const Ranks &ranks, std::ostream *stream) {
  *stream << ranks.size << " ranks of " << ranks.backend;
}

using RankBody = std::function<void(Communicator &)>;

/// Serves the store of a rendezvous on a free port, which is assigned to `port`.
c10::intrusive_ptr<c10d::TCPStore> serveStore(uint16_t &port);

/// The launch environment of one of `size` ranks whose store is served at `port` of this host.
LaunchEnvironment environmentAt(uint16_t port, unsigned rank, unsigned size);

/// Runs `body` with a communicator on each rank: threads for `local`, else processes. An EXPECT
/// that fails in a body fails the test that calls this.
void onRanks(const Ranks &ranks, const RankBody &body, CommunicatorOptions options = {});

/// Runs each rank as a process, which ends after `body`. The destructor waits for the ranks for
/// which wait() was not called, and expects that they end with status 0.
class RankProcesses {
public:
  static constexpr int kFailed = 1, kNoStore = 2;

  RankProcesses(const Ranks &ranks, const RankBody &body, CommunicatorOptions options = {});
  RankProcesses(const RankProcesses &) = delete;
  ~RankProcesses();

  pid_t pid(unsigned rank) const { return processes[rank]; }
  /// Waits for a rank's end; its status as of waitpid().
  int wait(unsigned rank);

private:
  std::vector<pid_t> processes; // by rank; -1 once waited for
  c10::intrusive_ptr<c10d::TCPStore> store;
};

} // namespace fsdp::rt

#endif // FSDP_TEST_RUNTIME_COMM_RANKS_H
