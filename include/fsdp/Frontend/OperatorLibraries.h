//===- OperatorLibraries.h - Operators that torch does not have --*- C++ -*-===//

#ifndef FSDP_FRONTEND_OPERATORLIBRARIES_H
#define FSDP_FRONTEND_OPERATORLIBRARIES_H

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace fsdp::frontend {

/// Loads shared libraries that register operators (TORCH_LIBRARY), before a model that calls them
/// is captured. Afterwards a backward through an operator without an autograd formula is an error,
/// where torch would omit the gradients. Errors name the library.
llvm::Error loadOperatorLibraries(const std::vector<std::string> &paths);

} // namespace fsdp::frontend

#endif // FSDP_FRONTEND_OPERATORLIBRARIES_H
