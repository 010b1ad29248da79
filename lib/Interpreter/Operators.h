//===- Operators.h - Calls of torch's operators ------------------*- C++ -*-===//
//
// All functions throw std::runtime_error, with a message that names the operator.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_INTERPRETER_OPERATORS_H
#define FSDP_LIB_INTERPRETER_OPERATORS_H

#include "fsdp/IR/Fsdp.h"

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

namespace fsdp::interpreter {

/// The name of an input: `tokens@1` in the second microbatch.
std::string getInputName(InputOp input);
/// The scale of the first step. Throws if the optimizer has none.
at::Tensor makeLossScale(OptimizerOp optimizer);

/// The tensor of this name; `what` describes it in the error.
at::Tensor findTensor(const std::map<std::string, at::Tensor> &tensors, const char *what,
                      llvm::StringRef name);

/// Throws unless sizes, strides, offset and dtype are those of the type. `op` yields the tensor.
void checkTensor(mlir::RankedTensorType type, const at::Tensor &tensor, llvm::StringRef op);

at::Tensor makeConstant(aten::ConstantOp constant);

/// One tensor for each result, undefined for results of type `none`; checked against types and the
/// table of operators. As in the runtime, a result with other strides than its type's is copied;
/// the operator is then added to `relaid` if that is not null.
llvm::SmallVector<at::Tensor> callOperator(aten::CallOp call, llvm::ArrayRef<at::Tensor> operands,
                                           std::vector<std::string> *relaid = nullptr);

/// Seeds torch's default generator.
void seedGenerator(uint64_t seed);

} // namespace fsdp::interpreter

#endif // FSDP_LIB_INTERPRETER_OPERATORS_H
