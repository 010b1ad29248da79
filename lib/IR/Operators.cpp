//===- Operators.cpp - Which operators a step may call --------------------===//

#include "fsdp/IR/AtenSemantics.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace fsdp::aten;

/// Sorted.
static constexpr llvm::StringLiteral kOperators[] = {
#include "OperatorNames.inc"
};

/// By base name: what reaches beyond the tensors of the step, to files, standard output, streams
/// and memory of devices, or to autograd, which a step has left behind.
static constexpr llvm::StringLiteral kForbidden[] = {"_async_error", "_backward", "_pin_memory",
                                                     "_print",       "from_file", "pin_memory",
                                                     "record_stream"};

std::optional<std::string> fsdp::aten::checkOperator(llvm::StringRef callee) {
  if (!std::binary_search(std::begin(kOperators), std::end(kOperators), callee))
    return "'" + callee.str() + "' is no operator of torch's aten, which training binaries have";
  if (llvm::is_contained(kForbidden, callee.split('.').first))
    return "'" + callee.str() +
           "' is refused: it reaches files, devices or processes, and a step computes with tensors "
           "alone";
  return std::nullopt;
}
