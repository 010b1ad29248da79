//===- StepData.h - The JSON data of pages ----------------------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_STEPDATA_H
#define FSDP_EXPLAIN_STEPDATA_H

#include "fsdp/Explain/Print.h"
#include "llvm/Support/JSON.h"

namespace fsdp::explain {

/// Writes the input of page/step.js as attributes of the current object of `out`. Times are whole
/// nanoseconds. `plan` is the view's, with bound and reasons; null for a measured step.
void writeStepData(const ScheduleView &view, const ExplainedPlan *plan, llvm::json::OStream &out);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_STEPDATA_H
