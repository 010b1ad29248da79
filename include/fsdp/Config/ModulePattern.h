//===- ModulePattern.h - A pattern of module paths --------------*- C++ -*-===//

#ifndef FSDP_CONFIG_MODULEPATTERN_H
#define FSDP_CONFIG_MODULEPATTERN_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/GlobPattern.h"

#include <optional>

namespace fsdp {

/// A pattern such as `layers.*` or `**.bias`. A `*` matches characters within one component of a
/// path of modules or parameters, the component `**` any number of components.
class ModulePattern {
public:
  /// The error quotes a component that is not a glob.
  static llvm::Expected<ModulePattern> create(llvm::StringRef text);

  bool match(llvm::StringRef path) const;

private:
  bool matchFrom(size_t component, llvm::ArrayRef<llvm::StringRef> parts) const;

  llvm::SmallVector<std::optional<llvm::GlobPattern>> components; // none: `**`
};

} // namespace fsdp

#endif // FSDP_CONFIG_MODULEPATTERN_H
