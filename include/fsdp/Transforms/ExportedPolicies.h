//===- ExportedPolicies.h - Mixed precision of exported modules --*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_EXPORTEDPOLICIES_H
#define FSDP_TRANSFORMS_EXPORTEDPOLICIES_H

#include "fsdp/Analysis/Step.h"
#include "fsdp/Config/Grouping.h"
#include "fsdp/Config/ModuleTree.h"

namespace fsdp {

/// The mixed-precision policies (`fsdp.mixed_precision`) of a module's groups. The policy of a
/// PyTorch module is the first that contains it: in the order of fully_shard's calls inner modules
/// come first.
class ExportedPolicies {
public:
  explicit ExportedPolicies(Step &step);

  /// The policy that contains all modules of the group; null if there is none.
  MixedPrecisionOp find(llvm::ArrayRef<std::string> modules);

  /// An error that names parameter, module and group if a parameter was exported under another
  /// policy than that of its group's modules.
  llvm::Error check(const ParamGroup &group);

private:
  struct Policy {
    MixedPrecisionOp op;
    llvm::SmallVector<const Module *> modules;

    bool holds(const Module &module) const;
  };

  Step &step;
  ModuleTree tree;
  llvm::SmallVector<Policy> policies;
};

} // namespace fsdp

#endif // FSDP_TRANSFORMS_EXPORTEDPOLICIES_H
