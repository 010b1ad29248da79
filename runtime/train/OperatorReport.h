//===- OperatorReport.h - Writes --operator-report ------------ -*- C++ -*-===//

#ifndef FSDP_RUNTIME_OPERATORREPORT_H
#define FSDP_RUNTIME_OPERATORREPORT_H

#include "executor/Executor.h"

namespace fsdp::rt {

/// Writes to `path`, one JSON line each, the differences between the operators of the steps that
/// `executor` ran and the plan. Replaces the file.
Status writeOperatorReport(const Executor &executor, const std::string &path);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_OPERATORREPORT_H
