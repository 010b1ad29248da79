//===- Operators.cpp - Which operators a step may call --------------------===//

#include "fsdp/IR/AtenSemantics.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace fsdp::aten;

/// aten's, without its name, and the names of torch's other namespaces, "quantized::". Sorted.
static constexpr llvm::StringLiteral kOperators[] = {
#include "OperatorNames.inc"
};

/// By base name: what reaches beyond the tensors of the step, to files, standard output, streams
/// and memory of devices, or to autograd, which a step has left behind.
static constexpr llvm::StringLiteral kForbidden[] = {"_async_error", "_backward", "_pin_memory",
                                                     "_print",       "from_file", "pin_memory",
                                                     "record_stream"};

std::optional<std::string> fsdp::aten::checkOperator(llvm::StringRef callee) {
  // Spelt out, it would pass for an operator of a library that is loaded later.
  if (llvm::StringRef name = callee; name.consume_front("aten::"))
    return "'" + callee.str() + "' is aten's: name it '" + name.str() +
           (name.contains('.') ? "'" : ".default'");
  if (size_t colons = callee.find("::"); colons != llvm::StringRef::npos && colons > 0) {
    // Of a library that --load-library names: whether that has it shows where it is loaded.
    if (!std::binary_search(std::begin(kOperators), std::end(kOperators),
                            callee.take_front(colons + 2)))
      return std::nullopt;
    return "'" + callee.str() +
           "' is torch's own, but not aten's: a step calls operators of aten " +
           "and of libraries of the user";
  }
  if (!std::binary_search(std::begin(kOperators), std::end(kOperators), callee))
    return "'" + callee.str() + "' is no operator of torch's aten, which training binaries have";
  if (llvm::is_contained(kForbidden, callee.split('.').first))
    return "'" + callee.str() +
           "' is refused: it reaches files, devices or processes, and a step computes with tensors "
           "alone";
  return std::nullopt;
}
