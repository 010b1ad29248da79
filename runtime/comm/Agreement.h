//===- Agreement.h - Errors that all ranks know ------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_AGREEMENT_H
#define FSDP_RUNTIME_COMM_AGREEMENT_H

#include "comm/Communicator.h"

#include <functional>

namespace fsdp::rt {

/// How a rank's part of a run ended.
struct Outcome {
  Status status;
  /// True: every rank has this error, and rank 0 prints it. False: found during a step or while
  /// talking to a peer that may be gone.
  bool known = true;
};

/// Exchanges what went wrong on each rank: fails on all ranks with the message of the lowest rank
/// that failed, "[rank 1] ..." unless that is rank 0.
Outcome agree(Communicator &communicator, const Status &own);

/// Repeats work(bytes) until it has returned true on all ranks, which meet after each, or failed on
/// one. No rank waits longer for another than for so many bytes.
Outcome inRounds(Communicator &communicator,
                 const std::function<Result<bool>(int64_t bytes)> &work);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_AGREEMENT_H
