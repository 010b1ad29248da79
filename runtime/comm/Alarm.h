//===- Alarm.h - How ranks on several hosts learn of a failure ---*- C++ -*-===//
//
// Ranks that meet over a network tell each other of failures through their store. A thread of each
// rank waits there until it is called, which costs nothing meanwhile. It answers how far its rank
// is, and then waits for the reason of the failure. A rank that does not answer is lost.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_ALARM_H
#define FSDP_RUNTIME_COMM_ALARM_H

#include "comm/BoundedCalls.h"
#include "comm/Store.h"

#include <vector>

namespace fsdp::rt {

/// What ranks answer to a call.
struct RollCall {
  bool storeAnswers = true;
  /// By rank: how many collectives it has begun, by lane; nothing of one that does not answer.
  std::vector<std::optional<std::vector<uint64_t>>> begun;
};

/// Thread-safe. One failure per run: what is told first stays.
class Alarm {
public:
  /// Throws what c10d throws. The store outlives the object. `servesStore`: with this rank's
  /// process ends the store, so it waits a moment until the others have heard the reason, whoever
  /// told it.
  Alarm(Store &store, unsigned rank, unsigned size, unsigned numLanes, bool servesStore);
  ~Alarm();
  Alarm(const Alarm &) = delete;
  Alarm &operator=(const Alarm &) = delete;

  /// Notes that this rank begins a collective.
  void begins(unsigned lane);
  /// How many this rank has begun.
  uint64_t begun(unsigned lane) const;

  /// Asks all ranks. It returns when all have answered, when no more answers come, when a reason is
  /// heard, or after `patience`.
  RollCall call(std::chrono::milliseconds patience);
  /// Tells all ranks why the run fails. The patience is that for the store; the server's for
  /// `ranks` ranks to hear it comes on top.
  void tell(const Status &reason, std::chrono::milliseconds patience, unsigned ranks);
  /// What a rank has told; no error if none has. Never blocks.
  Status heard() const;

private:
  struct State;
  const std::shared_ptr<State> state; // of the thread too, which may outlive the object
  const bool servesStore;
  BoundedCalls asks, waits; // last: they use the rest
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_ALARM_H
