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

  /// False for frozen parameters that are gathered as they are although they were exported under a
  /// policy with another param_dtype: integers, 8-bit floats, the scales in quantized tensors.
  bool follows(ParamOp param);

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
  /// For each parameter, the dtype to which all of its uses cast it; null: there is none.
  llvm::StringMap<mlir::Type> casts;
  ModuleTree tree;
  llvm::SmallVector<Policy> policies;
};

} // namespace fsdp

#endif // FSDP_TRANSFORMS_EXPORTEDPOLICIES_H
