//===- RefitFiles.h - Refits a profile and a network of files ----*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_REFITFILES_H
#define FSDP_TOOLS_PROFILE_REFITFILES_H

#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace fsdp::profile {

/// Paths; - is standard input or output.
struct RefitPaths {
  std::string step, trace, profile;
  std::string network; // or a preset's name
  std::string outputProfile, outputNetwork;
};

/// Writes the refitted profile and network, and prints the errors of the step's predictions before
/// and after. Nothing is written unless all is well. Errors name the file or the flag.
llvm::Error refitFiles(const RefitPaths &paths, llvm::raw_ostream &os);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_REFITFILES_H
