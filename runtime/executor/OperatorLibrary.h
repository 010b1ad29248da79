//===- OperatorLibrary.h - Libraries with further operators --- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_OPERATORLIBRARY_H
#define FSDP_RUNTIME_OPERATORLIBRARY_H

#include "Status.h"

#include <string>

namespace fsdp::rt {

/// Loads a shared library that registers operators (TORCH_LIBRARY), for the life of the process. To
/// be called before an executor is made for a plan that calls these operators. Errors name the
/// path.
Status loadOperatorLibrary(const std::string &path);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_OPERATORLIBRARY_H
