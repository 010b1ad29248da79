//===- PrefetchLists.h - Groups that are gathered ahead ----------*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_PREFETCHLISTS_H
#define FSDP_TRANSFORMS_PREFETCHLISTS_H

#include "fsdp/Analysis/Step.h"
#include "fsdp/Config/Grouping.h"

namespace fsdp {

/// Writes the user's prefetch lists to the module's groups, which are those of `asked`, in the same
/// order. A depth counts groups in the order in which their forwards begin, without the root.
/// Diagnoses, with group and module, a module without a group and a group that prefetches itself.
mlir::LogicalResult setPrefetchLists(mlir::ModuleOp module, llvm::ArrayRef<ParamGroup> asked);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_PREFETCHLISTS_H
