//===- OutputFile.cpp - Files that tools and passes write -----------------===//

#include "fsdp/IR/OutputFile.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/Signals.h"

#include <unistd.h>

using namespace fsdp;

static llvm::Error fail(const std::string &path, const llvm::Twine &problem) {
  std::string where = path == "-" ? "standard output" : "'" + path + "'";
  return llvm::createStringError("cannot write " + where + ": " + problem);
}

static llvm::Error writeTo(int descriptor, const std::string &path,
                           llvm::function_ref<llvm::Error(llvm::raw_ostream &)> write) {
  llvm::raw_fd_ostream os(descriptor, /*shouldClose=*/false);
  llvm::Error error = write(os);
  os.flush();
  std::error_code failure = os.error();
  if (!failure)
    return error;
  // An error that is left in the stream ends the program.
  os.clear_error();
  return llvm::joinErrors(std::move(error), fail(path, failure.message()));
}

llvm::Error fsdp::writeFile(const std::string &path,
                            llvm::function_ref<llvm::Error(llvm::raw_ostream &)> write,
                            OutputFile::Mode mode) {
  if (path == "-")
    return writeTo(STDOUT_FILENO, path, write);
  std::string problem;
  std::optional<OutputFile> file = OutputFile::open(path, problem, mode);
  if (!file)
    return fail(path, problem);
  std::string temporary = file->getTemporaryPath();
  if (!temporary.empty())
    llvm::sys::RemoveFileOnSignal(temporary);
  llvm::scope_exit forget([&] {
    if (!temporary.empty())
      llvm::sys::DontRemoveFileOnSignal(temporary);
  });
  if (llvm::Error error = writeTo(file->getDescriptor(), path, write))
    return error;
  if (std::optional<std::string> wrong = file->commit())
    return fail(path, *wrong);
  return llvm::Error::success();
}

llvm::Error fsdp::printFile(const std::string &path,
                            llvm::function_ref<void(llvm::raw_ostream &)> print) {
  return writeFile(path, [&](llvm::raw_ostream &os) {
    print(os);
    return llvm::Error::success();
  });
}
