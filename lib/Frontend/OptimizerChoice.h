//===- OptimizerChoice.h - The user's optimizer and the file's ---*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_OPTIMIZERCHOICE_H
#define FSDP_LIB_FRONTEND_OPTIMIZERCHOICE_H

#include "fsdp/Frontend/Capture.h"

#include <nlohmann/json_fwd.hpp>

namespace fsdp::frontend {

/// What fsdpc.export(..., optimizer=...) wrote: torch's names and values.
OptimizerSpec parseOptimizer(const nlohmann::json &text);

/// Throws CaptureError for values that the kind does not have or torch refuses. Without a kind, which
/// the file may have, nothing is known.
void checkOptimizer(const OptimizerSpec &spec);

/// Values that the user gives win over the file's; another kind than the file's starts from torch's
/// defaults. The result has a kind. Throws as checkOptimizer() does.
OptimizerSpec chooseOptimizer(const OptimizerSpec &asked,
                              const std::optional<OptimizerSpec> &ofFile);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_OPTIMIZERCHOICE_H
