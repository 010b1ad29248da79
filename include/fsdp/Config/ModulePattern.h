//===- ModulePattern.h - A pattern of module paths --------------*- C++ -*-===//

#ifndef FSDP_CONFIG_MODULEPATTERN_H
#define FSDP_CONFIG_MODULEPATTERN_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/GlobPattern.h"

namespace fsdp {

/// As `layers.*`: a `*` stands for characters of one component of a module's path.
class ModulePattern {
public:
  /// The error quotes a component that is no glob.
  static llvm::Expected<ModulePattern> create(llvm::StringRef text);

  bool match(llvm::StringRef path) const;

private:
  llvm::SmallVector<llvm::GlobPattern> components;
};

} // namespace fsdp

#endif // FSDP_CONFIG_MODULEPATTERN_H
