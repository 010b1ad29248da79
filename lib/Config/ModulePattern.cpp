//===- ModulePattern.cpp - A pattern of module paths ----------------------===//

#include "fsdp/Config/ModulePattern.h"

#include "llvm/ADT/StringExtras.h"

using namespace fsdp;

llvm::Expected<ModulePattern> ModulePattern::create(llvm::StringRef text) {
  ModulePattern pattern;
  for (llvm::StringRef component : llvm::split(text, '.')) {
    if (component == "**") {
      pattern.components.push_back(std::nullopt);
      continue;
    }
    llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(component);
    if (!glob)
      return llvm::createStringError("pattern '" + text + "': " + llvm::toString(glob.takeError()));
    pattern.components.push_back(std::move(*glob));
  }
  return pattern;
}

bool ModulePattern::matchFrom(size_t component, llvm::ArrayRef<llvm::StringRef> parts) const {
  if (component == components.size())
    return parts.empty();
  if (!components[component]) {
    for (size_t skipped = 0; skipped <= parts.size(); ++skipped)
      if (matchFrom(component + 1, parts.drop_front(skipped)))
        return true;
    return false;
  }
  return !parts.empty() && components[component]->match(parts.front()) &&
         matchFrom(component + 1, parts.drop_front());
}

bool ModulePattern::match(llvm::StringRef path) const {
  llvm::SmallVector<llvm::StringRef> parts(llvm::split(path, '.'));
  return matchFrom(0, parts);
}
