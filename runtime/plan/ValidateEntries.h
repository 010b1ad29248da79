//===- ValidateEntries.h - Checks the entries of a plan ------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_VALIDATEENTRIES_H
#define FSDP_RUNTIME_VALIDATEENTRIES_H

#include "plan/PlanView.h"

namespace fsdp::rt {

/// Checks every entry's indices, ranges and handles. Part of validatePlan(), which has checked the
/// other tables before.
Status validateEntries(const PlanView &plan);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_VALIDATEENTRIES_H
