//===- Fsdp.h - The fsdp dialect --------------------------------*- C++ -*-===//

#ifndef FSDP_IR_FSDP_H
#define FSDP_IR_FSDP_H

#include "fsdp/IR/Aten.h"
#include "mlir/IR/SymbolTable.h"

namespace fsdp {

/// The order in which ranks meet: every collective of a rank writes it.
struct CommunicatorResource : mlir::SideEffects::Resource::Base<CommunicatorResource> {
  llvm::StringRef getName() final { return "fsdp.communicator"; }
};

/// The storage of parameters, gradients, buffers and optimizer state.
struct ParameterStorageResource : mlir::SideEffects::Resource::Base<ParameterStorageResource> {
  llvm::StringRef getName() final { return "fsdp.storage"; }
};

/// What is wrong with a norm to clip gradients to, for people: "is -1, expected ...". The clip
/// factor is computed in fp32, so the norm must be above 0 and finite there.
std::optional<std::string> checkClipGradNorm(double norm);

} // namespace fsdp

#include "fsdp/IR/FsdpDialect.h.inc"
#include "fsdp/IR/FsdpEnums.h.inc"
#include "fsdp/IR/FsdpInterfaces.h.inc"

#define GET_TYPEDEF_CLASSES
#include "fsdp/IR/FsdpTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "fsdp/IR/FsdpAttrs.h.inc"

#define GET_OP_CLASSES
#include "fsdp/IR/FsdpOps.h.inc"

#endif // FSDP_IR_FSDP_H
