//===- Step.h - The declarations and the function of one step ---*- C++ -*-===//

#ifndef FSDP_ANALYSIS_STEP_H
#define FSDP_ANALYSIS_STEP_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace fsdp {

/// A parameter's place: which group, and where in it.
struct GroupMember {
  unsigned group;
  unsigned position;
};

/// What a module declares, collected once, in program order. Every pass begins with one.
struct Step {
  mlir::ModuleOp module;
  mlir::func::FuncOp function;
  OptimizerOp optimizer;
  MeshOp mesh; // null before grouping
  llvm::SmallVector<ParamOp> params;
  llvm::SmallVector<GroupOp> groups; // the root group is last
  llvm::DenseMap<mlir::StringAttr, ParamOp> paramByName;
  llvm::DenseMap<mlir::StringAttr, unsigned> groupByName;
  llvm::DenseMap<mlir::StringAttr, GroupMember> memberByParam;

  /// Collects the declarations of `module`. Diagnoses a step without a function of one block, more
  /// than one function, mesh or optimizer, and a parameter in two groups.
  static mlir::FailureOr<Step> collect(mlir::ModuleOp module);

  mlir::Block &getBody() { return function.getBody().front(); }

  /// True if the function is @evaluate: a forward alone, which leaves parameters as they are.
  bool isEvaluation() { return function.getSymName() == kEvaluationName; }

  /// Ranks over which the groups are sharded: the last axis of the mesh; 1 without a mesh.
  int64_t getRanks();
  /// Copies of every shard: the other axes of the mesh.
  int64_t getReplicas();
  /// How many microbatches the module says that a step has; 1 if it says nothing.
  int64_t getMicrobatches();

  /// The group's parameters, in the group's order.
  llvm::SmallVector<ParamOp> getParams(GroupOp group);
  /// Those of them that have gradients: the first ones.
  llvm::SmallVector<ParamOp> getTrained(GroupOp group);
  /// The dtype of the group's parameters; null if it has none.
  mlir::Type getDtype(GroupOp group);
};

/// The reduce-scatter whose result a shard is, reduced over the replicas or not; null if it is
/// none.
ReduceScatterStartOp getReductionOf(mlir::Value shard);

/// The module's phase; captured if it has no attribute.
ModulePhase getPhase(mlir::ModuleOp module);
void setPhase(mlir::ModuleOp module, ModulePhase phase);

/// Diagnoses a module that is in another phase than `pass` takes.
mlir::LogicalResult expectPhase(mlir::ModuleOp module, llvm::StringRef pass,
                                llvm::ArrayRef<ModulePhase> phases);

} // namespace fsdp

#endif // FSDP_ANALYSIS_STEP_H
