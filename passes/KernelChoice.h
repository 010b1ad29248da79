//===- KernelChoice.h - With which kernels a step is tried -------*- C++ -*-===//

#ifndef FSDP_PASSES_KERNELCHOICE_H
#define FSDP_PASSES_KERNELCHOICE_H

#include "fsdp/IR/Fsdp.h"
#include "fsdp/Transforms/Choices.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// Off, Exact or Fast: what `fusion` is of a step for `target`.
inline FusionChoice resolve(FusionChoice fusion, Target target) {
  if (fusion != FusionChoice::Auto)
    return fusion;
  return target == Target::Cuda ? FusionChoice::Fast : FusionChoice::Exact;
}

/// With which kernels a step is tried, in this order, until it fits the memory cap. Under a cap
/// `auto` ends with none: what a kernel reads and writes is in memory at once, so a step may fit
/// without kernels only.
inline llvm::SmallVector<FusionChoice, 2> listKernelChoices(FusionChoice fusion, bool hasCap) {
  if (fusion == FusionChoice::Auto && hasCap)
    return {fusion, FusionChoice::Off};
  return {fusion};
}

/// Makes the step `module` the one without kernels, which fits where the one with kernels does not,
/// and tells the user.
inline void leaveOutKernels(mlir::ModuleOp module, mlir::ModuleOp unfused) {
  module.getBodyRegion().takeBody(unfused.getBodyRegion());
  module->setAttrs(unfused->getAttrDictionary());
  module.emitRemark("no kernels are generated: the step fits the memory cap without them only, as "
                    "what a kernel reads and writes is in memory at once");
}

} // namespace fsdp

#endif // FSDP_PASSES_KERNELCHOICE_H
