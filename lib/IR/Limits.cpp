//===- Limits.cpp - Values that meshes and optimizers may have ------------===//

#include "fsdp/IR/Limits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace fsdp;

static std::string describe(double value, llvm::StringRef expected) {
  std::string problem;
  llvm::raw_string_ostream(problem)
      << "is " << llvm::format("%g", value) << ", expected " << expected;
  return problem;
}

std::optional<std::string> fsdp::checkAxisSize(int64_t size) {
  if (size >= 1 && size <= kMaxRanks)
    return std::nullopt;
  return "has " + std::to_string(size) + " ranks, expected at least 1 and at most " +
         std::to_string(kMaxRanks);
}

std::optional<std::string> fsdp::checkRanks(llvm::ArrayRef<int64_t> sizes) {
  int64_t ranks = 1;
  for (int64_t size : sizes) {
    if (size > kMaxRanks / ranks)
      return "has more than " + std::to_string(kMaxRanks) + " ranks";
    ranks *= size;
  }
  return std::nullopt;
}

std::optional<std::string> fsdp::checkDivideFactor(double factor) {
  if (std::isnormal(static_cast<float>(factor)) && factor > 0)
    return std::nullopt;
  return describe(factor, "a finite number above 0 that fp32 holds");
}

std::optional<std::string> fsdp::checkExtensionName(llvm::StringRef name) {
  auto isPart = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  if (!name.empty() && !llvm::isDigit(name.front()) && llvm::all_of(name, isPart))
    return std::nullopt;
  return "is '" + name.str() + "', expected letters, digits and _";
}

std::optional<std::string> fsdp::checkExtensionSizes(llvm::StringRef name, int64_t bytesPerElement,
                                                     int64_t bytesPerPart) {
  if (std::optional<std::string> wrong = checkExtensionName(name))
    return "name " + *wrong;
  if (bytesPerElement < 1 || bytesPerElement > 16)
    return "bytes_per_element is " + std::to_string(bytesPerElement) + ", expected 1 to 16";
  if (bytesPerPart < 0 || bytesPerPart > 4096)
    return "bytes_per_part is " + std::to_string(bytesPerPart) + ", expected 0 to 4096";
  return std::nullopt;
}

std::optional<std::string> fsdp::checkHyperParameter(double value) {
  if (std::isfinite(value) && value >= 0)
    return std::nullopt;
  return describe(value, "a finite number, 0 or more");
}

std::optional<std::string> fsdp::checkNesterov(bool nesterov, double momentum, double dampening) {
  if (!nesterov || (momentum > 0 && dampening == 0))
    return std::nullopt;
  return momentum > 0 ? describe(dampening, "0 with nesterov").insert(0, "dampening ")
                      : describe(momentum, "more than 0 with nesterov").insert(0, "momentum ");
}

std::optional<std::string> fsdp::checkBelowOne(double value) {
  if (value >= 0 && value < 1)
    return std::nullopt;
  return describe(value, "at least 0 and less than 1");
}

std::optional<std::string> fsdp::checkUpToOne(double value) {
  if (value >= 0 && value <= 1)
    return std::nullopt;
  return describe(value, "at least 0 and at most 1");
}

std::optional<std::string> fsdp::checkLossScale(double scale) {
  if (std::isnormal(static_cast<float>(scale)) && scale > 0)
    return std::nullopt;
  return describe(scale, "a normal number above 0 (in fp32)");
}

std::optional<std::string> fsdp::checkGrowthFactor(double factor) {
  if (std::isfinite(factor) && factor >= 1)
    return std::nullopt;
  return describe(factor, "a finite number, 1 or more");
}

std::optional<std::string> fsdp::checkBackoffFactor(double factor) {
  if (factor > 0 && factor <= 1)
    return std::nullopt;
  return describe(factor, "more than 0 and at most 1");
}

std::optional<std::string> fsdp::checkClipLimit(double limit) {
  auto inFp32 = static_cast<float>(limit);
  if (inFp32 > 0 && std::isfinite(inFp32))
    return std::nullopt;
  return describe(limit, "a finite number above 0 (in fp32)");
}
