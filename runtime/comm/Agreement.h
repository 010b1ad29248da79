//===- Agreement.h - Ranks exchange their errors -------------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_AGREEMENT_H
#define FSDP_RUNTIME_COMM_AGREEMENT_H

#include "comm/Communicator.h"

#include <functional>

namespace fsdp::rt {

/// The outcome of a rank's part of a run.
struct Outcome {
  Status status;
  /// True: every rank has this error, and rank 0 prints it. False: this rank found the error during
  /// a step, or while it communicated with a peer that may be gone.
  bool known = true;
};

/// Exchanges the errors of all ranks. If any rank has failed, fails on all ranks with the message
/// of the lowest such rank, "[rank 1] ..." unless that is rank 0.
Outcome agree(Communicator &communicator, const Status &own);

/// Repeats work(bytes) until it has returned true on all ranks or failed on one. The ranks meet
/// after each round, so that no rank waits longer for another than the work on `bytes` takes.
Outcome inRounds(Communicator &communicator,
                 const std::function<Result<bool>(int64_t bytes)> &work);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_AGREEMENT_H
