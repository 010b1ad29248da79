//===- OutputFile.h - Files that tools and passes write ----------*- C++ -*-===//

#ifndef FSDP_IR_OUTPUTFILE_H
#define FSDP_IR_OUTPUTFILE_H

#include "fsdp/Files/OutputFile.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace fsdp {

/// Opens `path` (- is standard output), calls `write`, and moves the file to its path (see
/// OutputFile). The path is unchanged if either fails. Errors of the file name the path; errors of
/// `write` are returned as they are.
llvm::Error writeFile(const std::string &path,
                      llvm::function_ref<llvm::Error(llvm::raw_ostream &)> write,
                      OutputFile::Mode mode = OutputFile::Mode::Data);

/// The same for a `print` that cannot fail.
llvm::Error printFile(const std::string &path, llvm::function_ref<void(llvm::raw_ostream &)> print);

} // namespace fsdp

#endif // FSDP_IR_OUTPUTFILE_H
