//===- Unshard.h - From a sharded to a captured step ------------*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_UNSHARD_H
#define FSDP_TRANSFORMS_UNSHARD_H

#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// Turns a sharded module back into a captured one with groups: parameters are read directly, and
/// each parameter has its own gradient and update. For questions like "what if there were twice the
/// ranks".
llvm::LogicalResult unshard(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_UNSHARD_H
