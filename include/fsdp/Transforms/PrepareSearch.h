//===- PrepareSearch.h - Prepares a sharded step for a search ---*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_PREPARESEARCH_H
#define FSDP_TRANSFORMS_PREPARESEARCH_H

#include "fsdp/Analysis/StepMemory.h"

namespace fsdp {

/// Prepares a sharded module for a search. Removes gathers whose results are not read, with their
/// waits and reshards: FSDP2 gathers a module's parameters before its backward, whether the
/// backward reads them (a linear layer's) or not (an embedding's). Then calls placeGradients
/// (PlaceGradients.h). Results keep their bits. Returns the memory of the remaining step.
mlir::FailureOr<StepMemory> prepareSearch(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_PREPARESEARCH_H
