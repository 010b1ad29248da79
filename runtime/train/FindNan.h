//===- FindNan.h - The error of --find-nan -------------------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_FINDNAN_H
#define FSDP_RUNTIME_FINDNAN_H

#include "comm/Agreement.h"
#include "executor/Executor.h"

namespace fsdp::rt {

/// Called by all ranks when a step is spoiled on one of them; `own`: this rank's finding. The error
/// names the first finding in the order of the step, and its rank.
Outcome tellNonFinite(Communicator &communicator, int64_t step,
                      const std::optional<NonFinite> &own);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_FINDNAN_H
