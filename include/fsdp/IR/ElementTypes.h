//===- ElementTypes.h - Element types in IR and in plans ---------*- C++ -*-===//

#ifndef FSDP_IR_ELEMENTTYPES_H
#define FSDP_IR_ELEMENTTYPES_H

#include "fsdp/Plan/Abi.h"
#include "mlir/IR/Types.h"

#include <cstdint>
#include <optional>

namespace fsdp {

/// The type in IR of elements of `dtype`, an fsdp_dtype or a c10::ScalarType, which are numbered
/// alike; null if tensors cannot have it.
mlir::Type getElementType(uint32_t dtype, mlir::MLIRContext *context);

/// The element type in plans; nullopt if plans cannot hold such elements.
std::optional<fsdp_dtype> getPlanDType(mlir::Type element);

} // namespace fsdp

#endif // FSDP_IR_ELEMENTTYPES_H
