//===- Fingerprint.h - A hash that identifies a plan ---------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_FINGERPRINT_H
#define FSDP_RUNTIME_FINGERPRINT_H

#include "plan/PlanView.h"

namespace fsdp::rt {

/// FNV-1a of all tables of a program's training plans, from `first` on, in 16 hexadecimal digits.
/// It is equal for equal plans, wherever they were compiled.
std::string fingerprintOf(const PlanView &first);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_FINGERPRINT_H
