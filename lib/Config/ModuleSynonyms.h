//===- ModuleSynonyms.h - Modules with several names -------------*- C++ -*-===//
//
// A model may hold one module under several names. Its operations have the first name. The other
// names are synonyms, by which a configuration may name the module, too.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_CONFIG_MODULESYNONYMS_H
#define FSDP_LIB_CONFIG_MODULESYNONYMS_H

#include "fsdp/Config/Grouping.h"
#include "fsdp/Config/ModulePattern.h"
#include "llvm/ADT/StringMap.h"

#include <optional>
#include <utility>

namespace fsdp {

class ModuleSynonyms {
public:
  /// `name` is a name of the parameter. If no operation uses the parameter from the modules of
  /// `name`, they are synonyms of the modules of the parameter's first name, or do not run. Adds
  /// these synonyms and returns true; else returns false.
  bool add(const NamedParam &param, llvm::StringRef name);

  /// The first name of the module with this synonym; none if there is no such synonym.
  std::optional<std::string> lookup(llvm::StringRef name) const;

  /// Adds to `found` the first names of modules with a synonym that matches.
  void match(const ModulePattern &pattern, std::vector<std::string> &found) const;

private:
  llvm::StringMap<std::string> firstNames; // by synonym
};

/// True if `name` is the path of `module`, or of a part of it; "" is the root.
bool isBelow(llvm::StringRef name, llvm::StringRef module);

/// Drops the last components that both names have in common: `a.0.w` and `b.0.w` become `a` and
/// `b`.
std::pair<llvm::StringRef, llvm::StringRef> dropCommonEnd(llvm::StringRef first,
                                                          llvm::StringRef second);

} // namespace fsdp

#endif // FSDP_LIB_CONFIG_MODULESYNONYMS_H
