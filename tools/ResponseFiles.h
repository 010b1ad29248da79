//===- ResponseFiles.h - Arguments from files ---------------------*- C++ -*-===//
//
// LLVM's parser frees the text of @file when it returns, but MLIR keeps references to the options
// of passes and pipelines until it runs them. So response files are read before parsing, and their
// text is kept.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_RESPONSEFILES_H
#define FSDP_TOOLS_RESPONSEFILES_H

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/StringSaver.h"

namespace fsdp {

/// The arguments of a program, each @file replaced by the arguments in it. They live as long as
/// this object.
class ExpandedArguments {
public:
  ExpandedArguments(int argc, char **argv) {
    arguments.push_back(argv[0]);
    // Prints errors about files.
    valid = llvm::cl::expandResponseFiles(argc, argv, nullptr, saver, arguments);
  }
  explicit operator bool() const { return valid; }
  int getCount() const { return static_cast<int>(arguments.size()); }
  /// In the form of main()'s argv; the strings must not be written to.
  char **get() { return const_cast<char **>(arguments.data()); }

private:
  llvm::BumpPtrAllocator allocator;
  llvm::StringSaver saver{allocator};
  llvm::SmallVector<const char *> arguments;
  bool valid;
};

} // namespace fsdp

#endif // FSDP_TOOLS_RESPONSEFILES_H
