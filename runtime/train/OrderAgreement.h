//===- OrderAgreement.h - One order of collectives on all ranks -*- C++ -*-===//

#ifndef FSDP_RUNTIME_ORDERAGREEMENT_H
#define FSDP_RUNTIME_ORDERAGREEMENT_H

#include "comm/Agreement.h"
#include "plan/PlanView.h"

namespace fsdp::rt {

/// Compares the order of collectives (plan/CollectiveOrder.h) of all plans of the program, from
/// `first` on, before the first of them. Where it differs, every rank fails with the first
/// collective that does, as two ranks have it.
Outcome agreeOnOrder(Communicator &communicator, const PlanView &first);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_ORDERAGREEMENT_H
