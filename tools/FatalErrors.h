//===- FatalErrors.h - What LLVM cannot recover from, as a message -*- C++ -*-===//

#ifndef FSDP_TOOLS_FATALERRORS_H
#define FSDP_TOOLS_FATALERRORS_H

#include "llvm/Support/ErrorHandling.h"

#include <cstdio>
#include <unistd.h>

namespace fsdp {

/// LLVM gives up on sizes that no memory holds, as damaged bytecode may name them, by abort(). With
/// this the tool ends like after any other error: a message that names it, and exit code 1.
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
