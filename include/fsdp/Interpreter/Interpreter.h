//===- Interpreter.h - Evaluates a captured step on real tensors -*- C++ -*-===//
//
// The meaning of captured IR, operator by operator, through torch's dispatcher. For tests: slow, on
// the CPU, and it checks that what the types promise is what the operators do.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_INTERPRETER_INTERPRETER_H
#define FSDP_INTERPRETER_INTERPRETER_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

namespace fsdp::interpreter {

using NamedTensors = std::map<std::string, at::Tensor>;

struct StepValues {
  at::Tensor loss;
  NamedTensors gradients; // by parameter
  NamedTensors buffers;   // the new values of those that are written
  /// Operators that gave a result other strides than its type has; it was copied to these.
  std::vector<std::string> relaid;
};

/// Evaluates `@step` of a captured module. `state` holds parameters and buffers by symbol name,
/// `inputs` the batch by input name; none of them is changed. Random operators draw from torch's
/// default generator, in program order. An error names the operator whose result has other sizes,
/// dtype or aliasing than the IR says, or the view with other strides.
llvm::Expected<StepValues> interpretStep(mlir::ModuleOp module, const NamedTensors &state,
                                         const NamedTensors &inputs);

} // namespace fsdp::interpreter

#endif // FSDP_INTERPRETER_INTERPRETER_H
