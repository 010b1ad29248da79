//===- StepData.h - A step, as pages read it ---------------------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_STEPDATA_H
#define FSDP_EXPLAIN_STEPDATA_H

#include "fsdp/Explain/Print.h"
#include "llvm/Support/JSON.h"

namespace fsdp::explain {

/// Writes the attributes that page/step.js reads into the object that is open in `out`. Times are
/// whole nanoseconds. `plan`, with bound and reasons, is the view's; null: the step was measured.
void writeStepData(const ScheduleView &view, const ExplainedPlan *plan, llvm::json::OStream &out);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_STEPDATA_H
