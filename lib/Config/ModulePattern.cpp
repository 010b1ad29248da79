//===- ModulePattern.cpp - A pattern of module paths ----------------------===//

#include "fsdp/Config/ModulePattern.h"

#include "llvm/ADT/StringExtras.h"

using namespace fsdp;

llvm::Expected<ModulePattern> ModulePattern::create(llvm::StringRef text) {
  ModulePattern pattern;
  for (llvm::StringRef component : llvm::split(text, '.')) {
    llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(component);
    if (!glob)
      return llvm::createStringError("pattern '" + text + "': " + llvm::toString(glob.takeError()));
    pattern.components.push_back(std::move(*glob));
  }
  return pattern;
}

bool ModulePattern::match(llvm::StringRef path) const {
  llvm::SmallVector<llvm::StringRef> parts(llvm::split(path, '.'));
  return parts.size() == components.size() &&
         llvm::all_of(llvm::zip_equal(components, parts),
                      [](auto both) { return std::get<0>(both).match(std::get<1>(both)); });
}
