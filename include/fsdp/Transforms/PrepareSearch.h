//===- PrepareSearch.h - A sharded step as searches take it -----*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_PREPARESEARCH_H
#define FSDP_TRANSFORMS_PREPARESEARCH_H

#include "fsdp/Analysis/StepMemory.h"

namespace fsdp {

/// Drops the gathers of a sharded module whose results nothing reads, with their waits and
/// reshards: FSDP2 gathers the parameters of a module before its backward, whether that needs them
/// (a linear layer's) or not (an embedding's). Makes every gradient one that can be written where
/// its reduction reads it (PlaceGradients.h). The bits are the same. Returns the memory of the step
/// that remains.
mlir::FailureOr<StepMemory> prepareSearch(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_PREPARESEARCH_H
