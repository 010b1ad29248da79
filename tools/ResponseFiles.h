//===- ResponseFiles.h - Arguments from files ---------------------*- C++ -*-===//
//
// LLVM's parser frees what it reads from @file when it returns, but MLIR keeps references to the
// options of passes and pipelines until it runs them. So the files are read before, and kept.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_RESPONSEFILES_H
#define FSDP_TOOLS_RESPONSEFILES_H

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/StringSaver.h"

namespace fsdp {

/// The arguments of a program with those of @files in their place; they live as long as the object.
class ExpandedArguments {
public:
  ExpandedArguments(int argc, char **argv) {
    arguments.push_back(argv[0]);
    // What is wrong with a file is printed.
    valid = llvm::cl::expandResponseFiles(argc, argv, nullptr, saver, arguments);
  }
  explicit operator bool() const { return valid; }
  int getCount() const { return static_cast<int>(arguments.size()); }
  /// As main() has them; nobody writes to them.
  char **get() { return const_cast<char **>(arguments.data()); }

private:
  llvm::BumpPtrAllocator allocator;
  llvm::StringSaver saver{allocator};
  llvm::SmallVector<const char *> arguments;
  bool valid;
};

} // namespace fsdp

#endif // FSDP_TOOLS_RESPONSEFILES_H
