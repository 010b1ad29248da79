//===- Version.h - Text of --version ------------------------------*- C++ -*-===//

#ifndef FSDP_TOOLS_VERSION_H
#define FSDP_TOOLS_VERSION_H

#include "fsdp/Plan/Abi.h"
#include "llvm/Config/llvm-config.h"

#include <string>

namespace fsdp {

/// "TOOL 0.1.0, plan ABI N, LLVM 22.1.8". A binary needs a runtime of the same plan ABI.
inline std::string getVersion(const std::string &tool) {
  return tool + " " FSDP_VERSION ", plan ABI " + std::to_string(FSDP_PLAN_ABI_VERSION) +
         ", LLVM " LLVM_VERSION_STRING;
}

} // namespace fsdp

#endif // FSDP_TOOLS_VERSION_H
