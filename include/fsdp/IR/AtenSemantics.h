//===- AtenSemantics.h - Properties of aten operators -----------*- C++ -*-===//

#ifndef FSDP_IR_ATENSEMANTICS_H
#define FSDP_IR_ATENSEMANTICS_H

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace fsdp::aten {

/// The properties of one operator, the same for all overloads.
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

/// The semantics of the operator with this base name (`mm` of `mm.default`). An operator outside
/// the table is neither a view nor random. The capture compares the table with torch's behaviour
/// for every operator that it records.
Semantics lookupSemantics(llvm::StringRef baseName);

/// The reason, in words, why a step may not call this operator (`mm.default`): torch's aten has no
/// such operator, or it touches files, devices or processes. Operators of other namespaces are
/// refused: training binaries do not load the libraries that define them.
std::optional<std::string> checkOperator(llvm::StringRef callee);

/// True if the schema of this aten operator (`relu_.default`) declares a write to an argument.
bool isMutable(llvm::StringRef callee);

} // namespace fsdp::aten

#endif // FSDP_IR_ATENSEMANTICS_H
