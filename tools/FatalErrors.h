//===- FatalErrors.h - LLVM's fatal errors as messages -------------*- C++ -*-===//

#ifndef FSDP_TOOLS_FATALERRORS_H
#define FSDP_TOOLS_FATALERRORS_H

#include "llvm/Support/ErrorHandling.h"

#include <cstdio>
#include <unistd.h>

namespace fsdp {

/// LLVM calls abort() when it cannot allocate, for example for a size in damaged bytecode. With
/// this handler the tool prints a message under its own name and exits with code 1, as after any
/// other error.
inline void endOnFatalErrors(const char *tool) {
  auto end = [](void *name, const char *reason, bool) {
    std::fprintf(stderr, "%s: error: the input cannot be processed: %s\n",
                 static_cast<const char *>(name), reason);
    ::_exit(1);
  };
  llvm::install_fatal_error_handler(end, const_cast<char *>(tool));
  llvm::install_bad_alloc_error_handler(end, const_cast<char *>(tool));
}

} // namespace fsdp

#endif // FSDP_TOOLS_FATALERRORS_H
