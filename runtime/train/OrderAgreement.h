//===- OrderAgreement.h - One order of collectives on all ranks -*- C++ -*-===//

#ifndef FSDP_RUNTIME_ORDERAGREEMENT_H
#define FSDP_RUNTIME_ORDERAGREEMENT_H

#include "comm/Agreement.h"
#include "plan/PlanView.h"

namespace fsdp::rt {

/// Compares the order of collectives (plan/CollectiveOrder.h) of all plans of the program, from
/// `first` on, between the ranks. To be called before the first collective. If an order differs,
/// every rank fails, and the error shows the first different collective on two ranks.
Outcome agreeOnOrder(Communicator &communicator, const PlanView &first);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_ORDERAGREEMENT_H
