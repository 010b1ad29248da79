//===- ModuleParams.cpp - Modules and the parameters that they hold -------===//

#include "ModuleParams.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <functional>
#include <numeric>

using namespace fsdp;
using llvm::StringRef;

ModuleParams::ModuleParams(llvm::ArrayRef<NamedParam> params, llvm::ArrayRef<std::string> modules)
    : params(params), heldAs(params.size()) {
  for (auto [index, param] : llvm::enumerate(params))
    for (StringRef name : param.names) {
      if (synonyms.add(param, name))
        continue;
      heldAs[index].push_back(name.str());
      for (const Module *module = &tree.addHolder(name); !module->isRoot();
           module = module->parent) {
        std::vector<unsigned> &below = paramsBelow[module->path];
        if (below.empty() || below.back() != index)
          below.push_back(index);
      }
    }
  for (StringRef module : modules)
    tree.add(module);
}

llvm::ArrayRef<unsigned> ModuleParams::below(StringRef module) const {
  auto found = paramsBelow.find(module);
  if (found == paramsBelow.end())
    return {};
  return found->second;
}

llvm::Expected<std::vector<std::string>> ModuleParams::match(StringRef pattern) const {
  if (!pattern.empty() && tree.lookup(pattern))
    return std::vector<std::string>{pattern.str()};
  if (std::optional<std::string> first = synonyms.lookup(pattern))
    return std::vector<std::string>{*first};
  llvm::Expected<ModulePattern> modulePattern = ModulePattern::create(pattern);
  if (!modulePattern)
    return modulePattern.takeError();
  std::vector<std::string> found;
  for (const Module &module : tree.getModules())
    if (!module.isRoot() && modulePattern->match(module.path))
      found.push_back(module.path.str());
  synonyms.match(*modulePattern, found);
  llvm::sort(found, [&](StringRef left, StringRef right) {
    return tree.lookup(left)->index < tree.lookup(right)->index;
  });
  return found;
}

bool ModuleParams::isUsedOutside(StringRef module) const {
  auto isOutside = [&](StringRef path) { return !isBelow(path, module); };
  return llvm::any_of(below(module), [&](unsigned index) {
    return llvm::any_of(params[index].users, isOutside) || llvm::any_of(heldAs[index], isOutside);
  });
}

std::vector<std::string> ModuleParams::findRepeatedBlocks() const {
  std::vector<unsigned> numbered(tree.getModules().size()); // how many X.<number> hold parameters
  // The number of a module "a.0" is its name. A module "0" has no number.
  auto isNumbered = [&](const Module &module) {
    return module.depth > 1 && llvm::all_of(module.name, llvm::isDigit) &&
           paramsBelow.contains(module.path);
  };
  for (const Module &module : tree.getModules())
    if (isNumbered(module))
      ++numbered[module.parent->index];
  std::vector<std::string> blocks;
  std::vector<bool> isInBlock(tree.getModules().size());
  for (const Module &module : tree.getModules()) {
    if (module.isRoot())
      continue;
    isInBlock[module.index] = isInBlock[module.parent->index];
    if (isInBlock[module.index] || !isNumbered(module) || numbered[module.parent->index] < 2)
      continue;
    isInBlock[module.index] = true;
    blocks.push_back(module.path.str());
  }
  return blocks;
}

int64_t ModuleParams::countElements(llvm::ArrayRef<unsigned> members) const {
  int64_t elements = 0;
  for (unsigned index : members)
    elements += std::accumulate(params[index].shape.begin(), params[index].shape.end(), int64_t(1),
                                std::multiplies<int64_t>());
  return elements;
}

std::vector<std::vector<std::string>> ModuleParams::divide(StringRef module,
                                                           llvm::ArrayRef<unsigned> members,
                                                           int64_t leastElements,
                                                           int64_t mostParts) const {
  const int64_t total = countElements(members), count = std::min(total / leastElements, mostParts);
  if (count < 2)
    return {};
  const llvm::DenseSet<unsigned> isMember(members.begin(), members.end());
  auto getHolder = [&](unsigned index) { return tree.lookupHolder(params[index].names.front()); };
  // True if a part may have the module: it is no larger than a part, or has no modules inside, and
  // its parameters are used in it alone.
  auto fits = [&](const Module &inner) {
    llvm::ArrayRef<unsigned> own = below(inner.path);
    auto isDirect = [&](unsigned index) { return getHolder(index) == &inner; };
    auto isAlone = [&](unsigned index) {
      return isMember.contains(index) && heldAs[index].size() == 1 && !params[index].users.empty();
    };
    return (countElements(own) <= total / count || llvm::all_of(own, isDirect)) &&
           llvm::all_of(own, isAlone) && !isUsedOutside(inner.path);
  };
  const Module *outer = tree.lookup(module);
  llvm::DenseMap<const Module *, bool> known;
  auto findOutermost = [&](unsigned index) {
    const Module *found = nullptr;
    for (const Module *inner = getHolder(index); inner != outer; inner = inner->parent) {
      auto [entry, isNew] = known.try_emplace(inner);
      if (isNew)
        entry->second = fits(*inner);
      if (entry->second)
        found = inner;
    }
    return found;
  };
  std::vector<std::vector<std::string>> parts(count);
  int64_t before = 0; // elements of the parameters before this one
  const Module *last = nullptr;
  for (unsigned index : members) {
    const Module *found = findOutermost(index);
    if (found && found != last) {
      const int64_t middle = before + countElements(below(found->path)) / 2;
      parts[std::min(middle / (total / count), count - 1)].push_back(found->path.str());
    }
    last = found;
    before += countElements(index);
  }
  llvm::erase_if(parts, [](const auto &modules) { return modules.empty(); });
  if (!parts.empty())
    parts.erase(parts.begin());
  return parts;
}

std::vector<std::string> ModuleParams::findHolders(llvm::ArrayRef<unsigned> members) const {
  std::vector<std::string> holders;
  auto areMembers = [&](StringRef path) {
    return llvm::all_of(below(path), [&](unsigned index) {
      return llvm::is_contained(members, index) && heldAs[index].size() == 1;
    });
  };
  for (unsigned index : members) {
    const Module *outermost = nullptr;
    for (const Module *module = tree.lookupHolder(params[index].names.front());
         !module->isRoot() && areMembers(module->path); module = module->parent)
      outermost = module;
    if (outermost && !llvm::is_contained(holders, outermost->path))
      holders.push_back(outermost->path.str());
  }
  llvm::erase_if(holders, [&](const std::string &holder) { return isUsedOutside(holder); });
  return holders;
}
