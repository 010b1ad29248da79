//===- ModuleSynonyms.cpp - Modules with several names --------------------===//

#include "ModuleSynonyms.h"

#include "llvm/ADT/STLExtras.h"

using namespace fsdp;
using llvm::StringRef;

bool fsdp::isBelow(StringRef name, StringRef module) {
  return module.empty() || name == module ||
         (name.starts_with(module) && name[module.size()] == '.');
}

std::pair<StringRef, StringRef> fsdp::dropCommonEnd(StringRef first, StringRef second) {
  while (first.rsplit('.').second == second.rsplit('.').second && first.contains('.') &&
         second.contains('.')) {
    first = first.rsplit('.').first;
    second = second.rsplit('.').first;
  }
  return {first, second};
}

bool ModuleSynonyms::add(const NamedParam &param, StringRef name) {
  const StringRef own = param.names.front();
  auto [first, other] = dropCommonEnd(own, name);
  if (name == own || name == other ||
      llvm::any_of(param.users, [&](StringRef user) { return isBelow(user, other); }))
    return false;
  StringRef end = name.drop_front(other.size());
  do {
    end = end.rsplit('.').first;
    firstNames.try_emplace((other + end).str(), (first + end).str());
  } while (!end.empty());
  return true;
}

std::optional<std::string> ModuleSynonyms::lookup(StringRef name) const {
  auto found = firstNames.find(name);
  return found == firstNames.end() ? std::nullopt : std::optional(found->second);
}

void ModuleSynonyms::match(const ModulePattern &pattern, std::vector<std::string> &found) const {
  for (const auto &[name, first] : firstNames)
    if (pattern.match(name) && !llvm::is_contained(found, first))
      found.push_back(first);
}
