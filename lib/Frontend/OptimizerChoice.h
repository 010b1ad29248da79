//===- OptimizerChoice.h - The user's optimizer and the file's ---*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_OPTIMIZERCHOICE_H
#define FSDP_LIB_FRONTEND_OPTIMIZERCHOICE_H

#include "fsdp/Frontend/Capture.h"

#include <nlohmann/json_fwd.hpp>

namespace fsdp::frontend {

/// Parses the output of fsdpc.export(..., optimizer=...): torch's names and values.
OptimizerSpec parseOptimizer(const nlohmann::json &text);

/// Parses the output of fsdpc.export(..., grad_scaler=...).
LossScaling parseLossScaling(const nlohmann::json &text);

/// Throws CaptureError for values that the kind does not have or torch refuses. Without a kind,
/// which the file may have, nothing can be checked.
void checkOptimizer(const OptimizerSpec &spec);

/// The user's values take precedence over the file's. Another kind than the file's starts from
/// torch's defaults, but keeps the file's loss scale. The result has a kind. Throws as
/// checkOptimizer() does.
OptimizerSpec chooseOptimizer(const OptimizerSpec &asked,
                              const std::optional<OptimizerSpec> &ofFile,
                              const std::optional<LossScaling> &scalingOfFile);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_OPTIMIZERCHOICE_H
