//===- UnknownLocations.h - Diagnostics without a location -------*- C++ -*-===//

#ifndef FSDP_IR_UNKNOWNLOCATIONS_H
#define FSDP_IR_UNKNOWNLOCATIONS_H

#include "mlir/IR/MLIRContext.h"

namespace fsdp {

/// From here on, diagnostics of the context without a location, or with a note that has none, are
/// printed to stderr as "error: ...", where MLIR prints "<unknown>:0: error: ...". Others go to the
/// handlers that the context has. For tools, not where diagnostics are verified.
void hideUnknownLocations(mlir::MLIRContext &context);

} // namespace fsdp

#endif // FSDP_IR_UNKNOWNLOCATIONS_H
