//===- Alarm.h - Reports a failure to ranks on other hosts ---- -*- C++ -*-===//
//
// Ranks that meet over a network report failures to each other through their store. A thread of
// each rank blocks on the store until a rank calls all ranks. Then it answers with the progress of
// its rank, and waits for the reason of the failure. A rank that does not answer is lost.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_ALARM_H
#define FSDP_RUNTIME_COMM_ALARM_H

#include "comm/BoundedCalls.h"
#include "comm/Store.h"

#include <vector>

namespace fsdp::rt {

/// The ranks' answers to a call.
struct RollCall {
  bool storeAnswers = true;
  /// For each rank, the number of collectives that it has begun on each lane; nothing for a rank
  /// that does not answer.
  std::vector<std::optional<std::vector<uint64_t>>> begun;
};

/// Thread-safe. A run has one failure: the first one that is told.
class Alarm {
public:
  /// Throws c10d's exceptions. The store outlives the object. `servesStore`: the store ends with
  /// this rank's process, so tell() waits a moment until the other ranks have heard the reason,
  /// whichever rank told it.
  Alarm(Store &store, unsigned rank, unsigned size, unsigned numLanes, bool servesStore);
  ~Alarm();
  Alarm(const Alarm &) = delete;
  Alarm &operator=(const Alarm &) = delete;

  /// Notes that this rank begins a collective.
  void begins(unsigned lane);
  /// The number of collectives that this rank has begun on a lane.
  uint64_t begun(unsigned lane) const;

  /// Calls all ranks. Returns when all have answered, when no more answers come, when a reason is
  /// heard, or after `patience`.
  RollCall call(std::chrono::milliseconds patience);
  /// Tells all ranks why the run fails. `patience` bounds the calls of the store; the rank that
  /// serves the store waits longer, until `ranks` ranks have heard the reason.
  void tell(const Status &reason, std::chrono::milliseconds patience, unsigned ranks);
  /// The reason that a rank has told; no error if there is none. Never blocks.
  Status heard() const;

private:
  struct State;
  const std::shared_ptr<State> state; // shared with the thread, which may outlive the object
  const bool servesStore;
  BoundedCalls asks, waits; // last members: they use the others
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_ALARM_H
