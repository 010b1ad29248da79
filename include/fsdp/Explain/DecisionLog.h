//===- DecisionLog.h - A step's decisions as text ---------------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_DECISIONLOG_H
#define FSDP_EXPLAIN_DECISIONLOG_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace fsdp::explain {

/// For each group the user's requests, the decisions and their reasons; then the order of the
/// step's events. Each line names its group, as FSDP2's log does. For a sharded, scheduled or
/// planned module, or a program, step by step. Nothing is simulated.
llvm::FailureOr<std::string> makeDecisionLog(mlir::ModuleOp module);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_DECISIONLOG_H
