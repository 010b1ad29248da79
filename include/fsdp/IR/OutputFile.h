//===- OutputFile.h - Files that tools and passes write ----------*- C++ -*-===//

#ifndef FSDP_IR_OUTPUTFILE_H
#define FSDP_IR_OUTPUTFILE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace fsdp {

/// Opens `path`, - being standard output, and then writes what `write` writes. Leaves no file
/// behind where either fails. Errors of the file name the path; those of `write` come back as they
/// are.
llvm::Error writeFile(const std::string &path,
                      llvm::function_ref<llvm::Error(llvm::raw_ostream &)> write);

} // namespace fsdp

#endif // FSDP_IR_OUTPUTFILE_H
