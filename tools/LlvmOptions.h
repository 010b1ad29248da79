//===- LlvmOptions.h - Tools whose command line is LLVM's ---------*- C++ -*-===//

#ifndef FSDP_TOOLS_LLVMOPTIONS_H
#define FSDP_TOOLS_LLVMOPTIONS_H

#include "Version.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp {

/// --version of the tool, not of LLVM.
inline void setVersion(const char *tool) {
  llvm::cl::SetVersionPrinter([tool](llvm::raw_ostream &os) { os << getVersion(tool) << '\n'; });
}

} // namespace fsdp

#endif // FSDP_TOOLS_LLVMOPTIONS_H
