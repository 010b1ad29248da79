//===- AtenSemantics.h - What passes know about aten operators --*- C++ -*-===//

#ifndef FSDP_IR_ATENSEMANTICS_H
#define FSDP_IR_ATENSEMANTICS_H

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace fsdp::aten {

/// What the compiler knows about one operator, all overloads alike.
struct Semantics {
  /// Every tensor result shares the storage of the first operand.
  bool isView = false;
  /// The operator draws random numbers.
  bool isRandom = false;
  /// No result needs a gradient, whatever the operands need.
  bool cutsGradient = false;
  /// One pass over the operands with little arithmetic: computing the result again costs about as
  /// much as writing and reading it. Deterministic, and never in place.
  bool isCheap = false;
};

/// The semantics of the operator with this base name (`mm` of `mm.default`); an operator that the
/// table does not list is neither a view nor random. The capture checks every operator that it
/// records against what torch really does, so that the table cannot drift.
Semantics lookupSemantics(llvm::StringRef baseName);

/// Why a step may not call this operator (`mm.default`), for people: torch's aten has none of that
/// name, or it touches files, devices or processes. Operators of other namespaces are refused:
/// training binaries do not load the libraries that bring them.
std::optional<std::string> checkOperator(llvm::StringRef callee);

/// True if the schema of this operator of aten (`relu_.default`) says that it writes to an
/// argument.
bool isMutable(llvm::StringRef callee);

} // namespace fsdp::aten

#endif // FSDP_IR_ATENSEMANTICS_H
