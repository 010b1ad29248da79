//===- LeaveOutKernels.h - Kernels that do not fit ---------------*- C++ -*-===//

#ifndef FSDP_PASSES_LEAVEOUTKERNELS_H
#define FSDP_PASSES_LEAVEOUTKERNELS_H

#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// With fusion=auto under a memory cap: makes the step `module` the one without kernels, which fits
/// where the one with kernels does not, and tells the user.
inline void leaveOutKernels(mlir::ModuleOp module, mlir::ModuleOp unfused) {
  module.getBodyRegion().takeBody(unfused.getBodyRegion());
  module->setAttrs(unfused->getAttrDictionary());
  module.emitRemark("no kernels are generated: the step fits the memory cap without them only, as "
                    "what a kernel reads and writes is in memory at once");
}

} // namespace fsdp

#endif // FSDP_PASSES_LEAVEOUTKERNELS_H
