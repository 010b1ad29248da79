//===- Step.h - The declarations and the function of one step ---*- C++ -*-===//

#ifndef FSDP_ANALYSIS_STEP_H
#define FSDP_ANALYSIS_STEP_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace fsdp {

/// A parameter's group and its index there.
struct GroupMember {
  unsigned group;
  unsigned position;
};

/// The axes over which the norm of all gradients is summed: if all groups are sharded over equally
/// many ranks, the shards' axis, else all axes of the model's mesh.
struct NormAxes {
  MeshOp mesh; // null: there is none
  llvm::SmallVector<mlir::Attribute, 2> axes;
  int64_t ranks = 1;
};

/// The declarations of a module, collected once, in program order. Every pass begins with them.
struct Step {
  mlir::ModuleOp module;
  mlir::func::FuncOp function;
  OptimizerOp optimizer;
  llvm::SmallVector<MeshOp, 1> meshes; // the model's is the first; none before grouping
  llvm::SmallVector<ParamOp> params;
  llvm::SmallVector<GroupOp> groups; // the root group is last
  llvm::DenseMap<mlir::StringAttr, ParamOp> paramByName;
  llvm::DenseMap<mlir::StringAttr, unsigned> groupByName;
  llvm::DenseMap<mlir::StringAttr, MeshOp> meshByName;
  llvm::DenseMap<mlir::StringAttr, GroupMember> memberByParam;

  /// Collects the declarations of `module`. Diagnoses a step without a function of one block, more
  /// than one function or optimizer, meshes of different numbers of ranks, and a parameter in two
  /// groups.
  static mlir::FailureOr<Step> collect(mlir::ModuleOp module);

  mlir::Block &getBody() { return function.getBody().front(); }

  /// True if the function is @evaluate: a forward alone, which leaves parameters as they are.
  bool isEvaluation() { return function.getSymName() == kEvaluationName; }

  MeshOp getMesh(GroupOp group) { return meshByName.lookup(group.getMeshAttr().getAttr()); }
  /// The mesh along whose axes the ranks of the collective meet.
  MeshOp getMesh(CollectiveOpInterface start);
  /// All ranks of a run; 1 without a mesh.
  int64_t getWorldSize();
  /// Ranks over which the group is sharded: the size of its mesh's last axis.
  int64_t getShards(GroupOp group) { return getMesh(group).getSizes().back(); }
  /// Number of ranks that hold equal copies of a shard: the product of the other axes' sizes.
  int64_t getReplicas(GroupOp group) { return getWorldSize() / getShards(group); }
  /// True if some group is sharded over several ranks.
  bool isSharded();
  NormAxes getNormAxes();
  /// The factor of the loss; null if the optimizer has none.
  LossScaleOp getLossScale();
  /// The module's `fsdp.accumulation`; null without one.
  AccumulationAttr getAccumulation();
  /// How many microbatches a step has.
  int64_t getMicrobatches();
  /// True if the order of microbatches is 1f1b (Stages.h).
  bool isInterleaved();

  /// The group's parameters, in the group's order.
  llvm::SmallVector<ParamOp> getParams(GroupOp group);
  /// The group's parameters that have gradients: its first ones.
  llvm::SmallVector<ParamOp> getTrained(GroupOp group);
  /// The dtype of the group's parameters; null if it has none.
  mlir::Type getDtype(GroupOp group);
};

/// The value that was stored on the host, if `value` is its fetched copy; else `value`.
mlir::Value skipHostCopies(mlir::Value value);

/// The scope of the operator that computes a value, through copies to and from the host; null if no
/// operator computes it.
aten::ScopeAttr getScopeOf(mlir::Value value);

/// The reduce-scatter that yields a shard, with or without an all-reduce over the replicas behind
/// it; null if there is none.
ReduceScatterStartOp getReductionOf(mlir::Value shard);

/// The module's phase; captured if it has no attribute.
ModulePhase getPhase(mlir::ModuleOp module);
void setPhase(mlir::ModuleOp module, ModulePhase phase);

/// The devices that the module was captured for.
Target getTarget(mlir::ModuleOp module);

/// Diagnoses a module whose phase is none of `phases`, those that `pass` accepts.
mlir::LogicalResult expectPhase(mlir::ModuleOp module, llvm::StringRef pass,
                                llvm::ArrayRef<ModulePhase> phases);

} // namespace fsdp

#endif // FSDP_ANALYSIS_STEP_H
