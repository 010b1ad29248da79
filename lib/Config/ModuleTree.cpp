//===- ModuleTree.cpp - The modules of a model by their paths -------------===//

#include "fsdp/Config/ModuleTree.h"

#include <algorithm>

using namespace fsdp;
using llvm::StringRef;

/// `a.b` for `a.b.c`; the root for `a`.
static StringRef getParentPath(StringRef path) {
  size_t dot = path.rfind('.');
  return dot == StringRef::npos ? StringRef() : path.take_front(dot);
}

bool Module::isIn(const Module &other) const {
  const Module *outer = this;
  while (outer->depth > other.depth)
    outer = outer->parent;
  return outer == &other;
}

const Module &ModuleTree::add(StringRef path) {
  if (const Module *known = moduleOf.lookup(path))
    return *known;
  const Module *parent = path.empty() ? nullptr : &add(getParentPath(path));
  auto entry = moduleOf.try_emplace(path, nullptr).first;
  StringRef owned = entry->getKey();
  Module &module = modules.emplace_back();
  module.path = owned;
  module.name = owned.substr(owned.rfind('.') + 1);
  module.parent = parent;
  module.depth = parent ? parent->depth + 1 : 0;
  module.index = modules.size() - 1;
  entry->second = &module;
  return module;
}

const Module &ModuleTree::addHolder(StringRef name) { return add(getParentPath(name)); }

const Module *ModuleTree::lookupHolder(StringRef name) const { return lookup(getParentPath(name)); }

llvm::SmallVector<const Module *> fsdp::getChain(const Module &module) {
  llvm::SmallVector<const Module *> chain;
  for (const Module *outer = &module; outer; outer = outer->parent)
    chain.push_back(outer);
  std::reverse(chain.begin(), chain.end());
  return chain;
}
