//===- DecisionLog.h - What was decided of a step, line by line --*- C++ -*-===//

#ifndef FSDP_EXPLAIN_DECISIONLOG_H
#define FSDP_EXPLAIN_DECISIONLOG_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace fsdp::explain {

/// What was asked of each group, what was decided, and why; then the order of the step's events.
/// Each line names its group, as FSDP2's log does. Of a sharded, scheduled or planned module; of a
/// program, of each of its steps. Nothing is simulated.
llvm::FailureOr<std::string> makeDecisionLog(mlir::ModuleOp module);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_DECISIONLOG_H
