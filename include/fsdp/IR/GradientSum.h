//===- GradientSum.h - The order of a value's gradients ----------*- C++ -*-===//
//
// A value that several calls use has one gradient from each, which autograd adds up in the order in
// which it comes by them. FSDP2 puts an identity before each call of a group's module, for its
// inputs: what comes out of one call is added up first. So the order depends on the groups, which a
// capture does not know.
//
// Where it matters, the last addition of a captured sum has the discardable attribute `aten.sum`: a
// list of `#aten.scope`, first that of the call that made the value, then those of the calls that
// used it, in the order of the sum. fsdp-sum-gradients-by-module takes it away.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_GRADIENTSUM_H
#define FSDP_IR_GRADIENTSUM_H

#include "llvm/ADT/StringRef.h"

namespace fsdp::aten {

inline constexpr llvm::StringLiteral kGradientSumAttrName = "aten.sum";

} // namespace fsdp::aten

#endif // FSDP_IR_GRADIENTSUM_H
