//===- GradientSum.h - The order of a value's gradients ----------*- C++ -*-===//
//
// A value that several calls use has one gradient from each. autograd adds these up in the order in
// which they are computed. FSDP2 puts an identity before each call of a group's module, for its
// inputs, so that the gradients from one call are summed first. The order of additions therefore
// depends on the groups, which a capture does not know.
//
// Where the order matters, the last addition of a captured sum has the discardable attribute
// `aten.sum`: a list of `#aten.scope`, first that of the call that computed the value, then those
// of the calls that use it, in the order of the sum. fsdp-sum-gradients-by-module removes it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_GRADIENTSUM_H
#define FSDP_IR_GRADIENTSUM_H

#include "llvm/ADT/StringRef.h"

namespace fsdp::aten {

inline constexpr llvm::StringLiteral kGradientSumAttrName = "aten.sum";

} // namespace fsdp::aten

#endif // FSDP_IR_GRADIENTSUM_H
