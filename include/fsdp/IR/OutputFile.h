//===- OutputFile.h - Files that tools and passes write ----------*- C++ -*-===//

#ifndef FSDP_IR_OUTPUTFILE_H
#define FSDP_IR_OUTPUTFILE_H

#include "fsdp/Files/OutputFile.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace fsdp {

/// Opens `path`, - being standard output, writes what `write` writes, and puts the file in place
/// (see OutputFile). The path stays as it was where either fails. Errors of the file name the path;
/// those of `write` come back as they are.
llvm::Error writeFile(const std::string &path,
                      llvm::function_ref<llvm::Error(llvm::raw_ostream &)> write,
                      OutputFile::Mode mode = OutputFile::Mode::Data);

/// The same for what cannot fail but at the file.
llvm::Error printFile(const std::string &path, llvm::function_ref<void(llvm::raw_ostream &)> print);

} // namespace fsdp

#endif // FSDP_IR_OUTPUTFILE_H
