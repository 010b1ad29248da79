//===- OptimizerOptions.h - Which options an optimizer has -------*- C++ -*-===//

#ifndef FSDP_IR_OPTIMIZEROPTIONS_H
#define FSDP_IR_OPTIMIZEROPTIONS_H

#include "fsdp/IR/Fsdp.h"

namespace fsdp {

/// Whether torch.optim's optimizer of this kind has the option: "momentum", "amsgrad", ...
bool hasOption(OptimizerKind kind, llvm::StringRef name);

/// An option by name, and whether the user gave it.
using GivenOption = std::pair<llvm::StringRef, bool>;

/// The first option that is given and that the kind does not have.
std::optional<llvm::StringRef> findForeignOption(OptimizerKind kind,
                                                 llvm::ArrayRef<GivenOption> options);

} // namespace fsdp

#endif // FSDP_IR_OPTIMIZEROPTIONS_H
