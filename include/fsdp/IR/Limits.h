//===- Limits.h - Values that meshes and optimizers may have -----*- C++ -*-===//
//
// Shared by flags, the YAML file and the text of modules. Each check returns a description of the
// error, to be appended to the value's name: "is -1, expected ...".
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_LIMITS_H
#define FSDP_IR_LIMITS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace fsdp {

/// The most ranks of a mesh: the limit of fsdp-plan. Tables of a plan grow with the ranks.
inline constexpr int64_t kMaxRanks = int64_t(1) << 24;

/// The size of one axis: from 1 to kMaxRanks.
std::optional<std::string> checkAxisSize(int64_t size);
/// All axes together. Each size has passed checkAxisSize.
std::optional<std::string> checkRanks(llvm::ArrayRef<int64_t> sizes);

/// A `gradient_divide_factor`, by which fp32 gradients are divided.
std::optional<std::string> checkDivideFactor(double factor);

/// A name of `fsdp_extension`, from which torch operators are named: letters, digits and `_`.
std::optional<std::string> checkExtensionName(llvm::StringRef name);
/// An `all_gather_extension`: its name, and the size of an encoded part of a parameter. The text
/// names the value that is wrong.
std::optional<std::string> checkExtensionSizes(llvm::StringRef name, int64_t bytesPerElement,
                                               int64_t bytesPerPart);

/// Learning rate, weight decay, momentum, eps, ...: finite and not negative.
std::optional<std::string> checkHyperParameter(double value);
/// Nesterov momentum needs a momentum and no dampening. The text names the value that is wrong.
std::optional<std::string> checkNesterov(bool nesterov, double momentum, double dampening);
/// A beta: at least 0 and below 1.
std::optional<std::string> checkBelowOne(double value);
/// rho of adadelta: at least 0 and at most 1.
std::optional<std::string> checkUpToOne(double value);
/// The first scale of a loss: a normal number above 0 in fp32, the dtype of scales.
std::optional<std::string> checkLossScale(double scale);
/// The factors by which a loss scale grows and shrinks: at least 1; above 0 and at most 1.
std::optional<std::string> checkGrowthFactor(double factor);
std::optional<std::string> checkBackoffFactor(double factor);
/// The norm, or the value of each element, that gradients are clipped to: above 0 and finite in
/// fp32, in which the clip factor and most gradients are.
std::optional<std::string> checkClipLimit(double limit);

} // namespace fsdp

#endif // FSDP_IR_LIMITS_H
