//===- PlainNumbers.cpp - Numbers in assembly formats, without types ------===//

#include "PlainNumbers.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

ParseResult fsdp::parsePlainInteger(OpAsmParser &parser, IntegerAttr &value) {
  int64_t number;
  if (parser.parseInteger(number))
    return failure();
  value = parser.getBuilder().getI64IntegerAttr(number);
  return success();
}

void fsdp::printPlainInteger(OpAsmPrinter &printer, Operation *, IntegerAttr value) {
  printer << value.getInt();
}

ParseResult fsdp::parsePlainFloat(OpAsmParser &parser, FloatAttr &value) {
  double number;
  if (parser.parseFloat(number))
    return failure();
  value = parser.getBuilder().getF64FloatAttr(number);
  return success();
}

void fsdp::printPlainFloat(OpAsmPrinter &printer, Operation *, FloatAttr value) {
  printer.printFloat(value.getValue());
}
