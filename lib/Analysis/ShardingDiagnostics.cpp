//===- ShardingDiagnostics.cpp - Errors that the sharded rules share ------===//

#include "ShardingDiagnostics.h"

using namespace mlir;
using namespace fsdp;

LogicalResult fsdp::fail(Operation *op, const Twine &message, Operation *other, StringRef note) {
  InFlightDiagnostic diag = op->emitError(message);
  if (other)
    diag.attachNote(other->getLoc()) << note;
  return diag;
}

LogicalResult fsdp::checkOwnDtype(Operation *op, Value value, ParamOp param) {
  Type expected = cast<RankedTensorType>(param.getType()).getElementType();
  Type got = cast<RankedTensorType>(value.getType()).getElementType();
  if (got == expected)
    return success();
  InFlightDiagnostic diag = op->emitError("S7: parameter @")
                            << param.getSymName() << " is " << got << " here, expected " << expected
                            << ": a parameter that is whole on each rank is not gathered";
  diag.attachNote(param.getLoc()) << "the parameter is declared here";
  return diag;
}
