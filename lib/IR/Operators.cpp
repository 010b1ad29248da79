//===- Operators.cpp - Which operators a step may call --------------------===//

#include "fsdp/IR/AtenSemantics.h"

#include "llvm/ADT/STLExtras.h"

using namespace fsdp::aten;

namespace {
struct Operator {
  llvm::StringLiteral name;
  bool isMutable; // its schema declares a write to an argument
};
} // namespace

/// Operators of aten without namespace, and the names of torch's other namespaces, "quantized::".
/// Sorted.
static constexpr Operator kOperators[] = {
#include "OperatorNames.inc"
};

static const Operator *find(llvm::StringRef name) {
  const Operator *found = llvm::lower_bound(
      kOperators, name, [](const Operator &a, llvm::StringRef b) { return a.name < b; });
  return found != std::end(kOperators) && found->name == name ? found : nullptr;
}

bool fsdp::aten::isMutable(llvm::StringRef callee) {
  const Operator *found = find(callee);
  return found && found->isMutable;
}

/// Base names of operators with effects outside of the step's tensors: on files, standard output,
/// streams and device memory, or on autograd, which is over when the step runs.
static constexpr llvm::StringLiteral kForbidden[] = {"_async_error", "_backward", "_pin_memory",
                                                     "_print",       "from_file", "pin_memory",
                                                     "record_stream"};

std::optional<std::string> fsdp::aten::checkOperator(llvm::StringRef callee) {
  // With the prefix the name would be taken for one of a library that is loaded later.
  if (llvm::StringRef name = callee; name.consume_front("aten::"))
    return "'" + callee.str() + "' is aten's: name it '" + name.str() +
           (name.contains('.') ? "'" : ".default'");
  if (size_t colons = callee.find("::"); colons != llvm::StringRef::npos && colons > 0) {
    // An operator of a library for --load-library: loading shows whether it exists.
    if (!find(callee.take_front(colons + 2)))
      return std::nullopt;
    return "'" + callee.str() +
           "' is torch's own, but not aten's: a step calls operators of aten " +
           "and of libraries of the user";
  }
  if (!find(callee))
    return "'" + callee.str() + "' is no operator of torch's aten, which training binaries have";
  if (llvm::is_contained(kForbidden, callee.split('.').first))
    return "'" + callee.str() +
           "' is refused: it reaches files, devices or processes, and a step computes with tensors "
           "alone";
  return std::nullopt;
}
