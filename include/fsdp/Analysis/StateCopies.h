//===- StateCopies.h - Host copies of optimizer state -----------*- C++ -*-===//

#ifndef FSDP_ANALYSIS_STATECOPIES_H
#define FSDP_ANALYSIS_STATECOPIES_H

#include "fsdp/Analysis/Step.h"

namespace fsdp {

/// The update of a group whose parameters or optimizer state lie on the host, and its host copies.
struct StateCopy {
  UpdateOp update;
  FetchStateStartOp fetch;
  FetchStateWaitOp fetchWait;
  StoreStateStartOp store;
  StoreStateWaitOp storeWait;
};

/// The state copies of a step, in the order of the updates. A copy without a store or a wait is
/// left out: the checks S2 and S6 refuse it.
llvm::SmallVector<StateCopy> collectStateCopies(mlir::Block &body);

/// S6: state on the host is fetched once and waited for before its update. It is stored after the
/// update, and the store is waited for once. State in the arena is not fetched. Diagnoses the first
/// violation.
mlir::LogicalResult checkStateCopies(Step &step);

} // namespace fsdp

#endif // FSDP_ANALYSIS_STATECOPIES_H
