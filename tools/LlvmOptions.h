//===- LlvmOptions.h - Tools that use LLVM's command line ---------*- C++ -*-===//

#ifndef FSDP_TOOLS_LLVMOPTIONS_H
#define FSDP_TOOLS_LLVMOPTIONS_H

#include "Version.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp {

/// Makes --version print the tool's version, not LLVM's.
inline void setVersion(const char *tool) {
  llvm::cl::SetVersionPrinter([tool](llvm::raw_ostream &os) { os << getVersion(tool) << '\n'; });
}

} // namespace fsdp

#endif // FSDP_TOOLS_LLVMOPTIONS_H
