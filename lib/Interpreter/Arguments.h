//===- Arguments.h - Attributes of a call as torch's values ------*- C++ -*-===//

#ifndef FSDP_LIB_INTERPRETER_ARGUMENTS_H
#define FSDP_LIB_INTERPRETER_ARGUMENTS_H

#include "fsdp/IR/Aten.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

namespace fsdp::interpreter {

/// The dtype of an element type; throws std::runtime_error.
at::ScalarType convertElementType(mlir::Type type);

/// The value of one argument. Takes operands from the front of `operands`.
c10::IValue makeArgument(mlir::Attribute attribute, const c10::Argument &formal,
                         llvm::ArrayRef<at::Tensor> &operands);

} // namespace fsdp::interpreter

#endif // FSDP_LIB_INTERPRETER_ARGUMENTS_H
