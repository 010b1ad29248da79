//===- Fsdp.h - The fsdp dialect --------------------------------*- C++ -*-===//

#ifndef FSDP_IR_FSDP_H
#define FSDP_IR_FSDP_H

#include "fsdp/IR/Aten.h"
#include "fsdp/IR/Limits.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"

namespace fsdp {

/// The order of collectives on a rank: every collective writes this resource.
struct CommunicatorResource : mlir::SideEffects::Resource::Base<CommunicatorResource> {
  llvm::StringRef getName() final { return "fsdp.communicator"; }
};

/// The storage of parameters, gradients, buffers and optimizer state.
struct ParameterStorageResource : mlir::SideEffects::Resource::Base<ParameterStorageResource> {
  llvm::StringRef getName() final { return "fsdp.storage"; }
};

/// Names of a module's only function: a training step, or an evaluation.
inline constexpr llvm::StringLiteral kTrainingName = "step", kEvaluationName = "evaluate";

} // namespace fsdp

#include "fsdp/IR/FsdpDialect.h.inc"
#include "fsdp/IR/FsdpEnums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "fsdp/IR/FsdpTypes.h.inc"

#include "fsdp/IR/FsdpInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "fsdp/IR/FsdpAttrs.h.inc"

#define GET_OP_CLASSES
#include "fsdp/IR/FsdpOps.h.inc"

#endif // FSDP_IR_FSDP_H
