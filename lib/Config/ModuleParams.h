//===- ModuleParams.h - Modules and the parameters that they hold --*- C++ -*-===//

#ifndef FSDP_LIB_CONFIG_MODULEPARAMS_H
#define FSDP_LIB_CONFIG_MODULEPARAMS_H

#include "ModuleSynonyms.h"
#include "fsdp/Config/ModuleTree.h"

namespace fsdp {

/// A model's modules, and which parameters they hold. Parameters are given by their index.
class ModuleParams {
public:
  /// `modules`: further paths, of modules without parameters.
  ModuleParams(llvm::ArrayRef<NamedParam> params, llvm::ArrayRef<std::string> modules);

  /// The parameters that the module and its parts hold, in the model's order; none for the root.
  llvm::ArrayRef<unsigned> below(llvm::StringRef module) const;
  /// By parameter: its names in modules that run.
  llvm::ArrayRef<std::vector<std::string>> names() const { return heldAs; }

  /// The modules that `pattern` names, by any of their names; `*` matches within one component of a
  /// path. In the model's order; none if nothing matches.
  llvm::Expected<std::vector<std::string>> match(llvm::StringRef pattern) const;

  /// True if an operation outside of the module uses one of its parameters, or if a module outside
  /// holds one.
  bool isUsedOutside(llvm::StringRef module) const;

  /// A block is a module X.<number> with a sibling X.<other number>, both with parameters. Only
  /// outermost blocks count.
  std::vector<std::string> findRepeatedBlocks() const;

  /// The outermost modules all of whose parameters are in `members`. Shared parameters, and
  /// parameters that operations outside of such modules use, have no holder.
  std::vector<std::string> findHolders(llvm::ArrayRef<unsigned> members) const;

  /// Divides `members`, parameters below `module`, into as many parts of about equal size as have
  /// `leastElements` elements each, but at most `mostParts`, in the model's order. Returns the
  /// modules of each part but the first, which also has what no module inside can hold: parameters
  /// of modules that are divided themselves or are no members entirely, shared parameters, and
  /// parameters that operations outside of the module, or none, use.
  std::vector<std::vector<std::string>> divide(llvm::StringRef module,
                                               llvm::ArrayRef<unsigned> members,
                                               int64_t leastElements, int64_t mostParts) const;

private:
  int64_t countElements(llvm::ArrayRef<unsigned> members) const;

  llvm::ArrayRef<NamedParam> params;
  ModuleTree tree;
  llvm::StringMap<std::vector<unsigned>> paramsBelow; // by module path, without the root
  ModuleSynonyms synonyms;
  std::vector<std::vector<std::string>> heldAs;
};

} // namespace fsdp

#endif // FSDP_LIB_CONFIG_MODULEPARAMS_H
