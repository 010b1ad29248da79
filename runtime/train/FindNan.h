//===- FindNan.h - What --find-nan tells -------------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_FINDNAN_H
#define FSDP_RUNTIME_FINDNAN_H

#include "comm/Agreement.h"
#include "executor/Executor.h"

namespace fsdp::rt {

/// All ranks call this when a step is spoiled on one of them; `own`: what this rank found. The
/// error says what came first in the order of the step, and on which rank.
Outcome tellNonFinite(Communicator &communicator, int64_t step,
                      const std::optional<NonFinite> &own);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_FINDNAN_H
