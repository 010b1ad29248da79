//===- OptimizerOptions.cpp - Which options an optimizer has --------------===//

#include "fsdp/IR/OptimizerOptions.h"

using namespace fsdp;

bool fsdp::hasOption(OptimizerKind kind, llvm::StringRef name) {
  static constexpr llvm::StringLiteral ofSgd[] = {"momentum", "dampening", "nesterov"};
  static constexpr llvm::StringLiteral ofAdam[] = {"betas", "eps", "amsgrad"};
  return kind == OptimizerKind::SGD ? !llvm::is_contained(ofAdam, name)
                                    : !llvm::is_contained(ofSgd, name);
}

std::optional<llvm::StringRef> fsdp::findForeignOption(OptimizerKind kind,
                                                       llvm::ArrayRef<GivenOption> options) {
  for (auto [name, isGiven] : options)
    if (isGiven && !hasOption(kind, name))
      return name;
  return std::nullopt;
}
