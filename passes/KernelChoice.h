//===- KernelChoice.h - Choices of kernels for a step --------- -*- C++ -*-===//

#ifndef FSDP_PASSES_KERNELCHOICE_H
#define FSDP_PASSES_KERNELCHOICE_H

#include "fsdp/IR/Fsdp.h"
#include "fsdp/Transforms/Choices.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// Resolves `fusion` for a step on `target`, to Off, Exact or Fast.
inline FusionChoice resolve(FusionChoice fusion, Target target) {
  if (fusion != FusionChoice::Auto)
    return fusion;
  return target == Target::Cuda ? FusionChoice::Fast : FusionChoice::Exact;
}

/// The choices of kernels with which a step is tried, in this order, until it fits the memory cap.
/// Under a cap `auto` ends with no kernels: all operands and results of a kernel are in memory at
/// once, so a step may fit only without kernels.
inline llvm::SmallVector<FusionChoice, 2> listKernelChoices(FusionChoice fusion, bool hasCap) {
  if (fusion == FusionChoice::Auto && hasCap)
    return {fusion, FusionChoice::Off};
  return {fusion};
}

/// Replaces the step `module` by `unfused`, which fits without kernels, and tells the user.
inline void leaveOutKernels(mlir::ModuleOp module, mlir::ModuleOp unfused) {
  module.getBodyRegion().takeBody(unfused.getBodyRegion());
  module->setAttrs(unfused->getAttrDictionary());
  module.emitRemark("no kernels are generated: the step fits the memory cap without them only, as "
                    "what a kernel reads and writes is in memory at once");
}

} // namespace fsdp

#endif // FSDP_PASSES_KERNELCHOICE_H
