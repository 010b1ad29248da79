//===- OutputFile.cpp - Files that tools and passes write -----------------===//

#include "fsdp/IR/OutputFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/ToolOutputFile.h"

llvm::Error fsdp::writeFile(const std::string &path,
                            llvm::function_ref<llvm::Error(llvm::raw_ostream &)> write) {
  auto fail = [&](std::error_code code) {
    return llvm::createStringError("cannot write '" + path + "': " + code.message());
  };
  std::error_code code;
  llvm::ToolOutputFile file(path, code, llvm::sys::fs::OF_None);
  if (code)
    return fail(code);
  llvm::Error error = write(file.os());
  file.os().flush();
  // A stream with an error that nobody took ends the program.
  if (std::error_code failure = file.os().error()) {
    file.os().clear_error();
    return llvm::joinErrors(std::move(error), fail(failure));
  }
  if (!error)
    file.keep();
  return error;
}
