//===- ModuleTree.h - The modules of a model by their paths ------*- C++ -*-===//
//
// A module's path is its qualified name: components joined by dots, "" for the root. Other code
// does not parse paths.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_CONFIG_MODULETREE_H
#define FSDP_CONFIG_MODULETREE_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <deque>

namespace fsdp {

/// One module. Lives as long as its tree.
struct Module {
  llvm::StringRef path;
  llvm::StringRef name;           // the last component
  const Module *parent = nullptr; // null: the root
  unsigned depth = 0;             // components of the path
  unsigned index = 0;             // in ModuleTree::getModules()

  bool isRoot() const { return !parent; }
  /// True if this module is `other` or lies in it.
  bool isIn(const Module &other) const;
};

class ModuleTree {
public:
  ModuleTree() { add(""); }
  ModuleTree(const ModuleTree &) = delete;
  ModuleTree &operator=(const ModuleTree &) = delete;

  /// The module of this path. The module and its parents are added if they are new.
  const Module &add(llvm::StringRef path);
  /// The module that holds a parameter or buffer of this qualified name: `a.b` of `a.b.weight`.
  const Module &addHolder(llvm::StringRef name);
  /// The module of this path; null if it was not added.
  const Module *lookup(llvm::StringRef path) const { return moduleOf.lookup(path); }
  /// The same for the module that holds a parameter or buffer of this name.
  const Module *lookupHolder(llvm::StringRef name) const;
  /// All modules in the order of addition, outer modules before inner ones; the root is first.
  const std::deque<Module> &getModules() const { return modules; }

private:
  llvm::StringMap<const Module *> moduleOf; // owns the paths
  std::deque<Module> modules;
};

/// `module` and all of its parents, the root first.
llvm::SmallVector<const Module *> getChain(const Module &module);

} // namespace fsdp

#endif // FSDP_CONFIG_MODULETREE_H
