//===- ReduceGradients.h - Reductions and updates of gradients --*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_REDUCEGRADIENTS_H
#define FSDP_TRANSFORMS_REDUCEGRADIENTS_H

#include "fsdp/Analysis/GradientDivision.h"
#include "fsdp/Analysis/Step.h"
#include "mlir/IR/Builders.h"

namespace fsdp {

/// Builds the reductions of gradients at the builder's insertion point, their sums over
/// microbatches by the groups' `gradient_sync`, and the updates. On one rank gradients are packed
/// instead.
class GradientReductions {
public:
  /// `number` and `rate` are operands of the updates: the step's number and the learning rate.
  GradientReductions(Step &step, mlir::OpBuilder &builder, mlir::Value number, mlir::Value rate,
                     int64_t lastMicrobatch)
      : step(step), builder(builder), sums(step.groups.size()), number(number), rate(rate),
        lastMicrobatch(lastMicrobatch) {}

  /// Adds the gradients of one microbatch, one for each trained parameter of the group, in its
  /// order. After the last microbatch the group is updated, unless updates need the norm of all
  /// gradients.
  void add(unsigned group, llvm::ArrayRef<mlir::Value> gradients, int64_t microbatch);
  /// Reduces the unreduced sums of earlier microbatches, without gradients of the last one.
  void reduceEarlier(unsigned group);
  /// If updates need the norm of all gradients: builds it, and then the updates.
  void finish();

  unsigned numReduceScatters = 0, numAllReduces = 0;

private:
  /// The sums over the microbatches so far.
  struct Sum {
    llvm::SmallVector<mlir::Value> whole; // of unreduced gradients
    mlir::Value shard;                    // of reduced gradients
  };

  bool isSharded(GroupOp group) { return step.getShards(group) > 1; }
  bool isReplicated(GroupOp group) { return step.getReplicas(group) > 1; }
  bool isLeftAlone(GroupOp group);
  /// Passes a completely reduced gradient to the group's all_reduce_hook, if it has one.
  mlir::Value callHook(GroupOp group, mlir::Value reduced);
  void addWhole(Sum &sum, GroupOp group, llvm::ArrayRef<mlir::Value> gradients);
  void addShard(Sum &sum, GroupOp group, mlir::Value shard);
  /// Reduces over the ranks of the shard axis and, if `isAcross`, over the replicas; returns this
  /// rank's shard.
  mlir::Value reduce(GroupOp group, mlir::ValueRange gradients, bool isAcross);
  mlir::Value allReduce(mlir::Value source, mlir::Type type, mlir::ArrayRef<mlir::Attribute> axes,
                        const Reduction &how, mlir::Location loc);
  /// Reduces over the replicas.
  mlir::Value reduceAcross(GroupOp group, mlir::Value source, mlir::Type type,
                           const Reduction &how) {
    return allReduce(source, type, mlir::Attribute(group.getReplicateAxisAttr()), how,
                     group.getLoc());
  }
  /// Null if the loss is not scaled.
  mlir::Value getLossScale();
  GradientDivision getDivision(GroupOp group, mlir::Type dtype) {
    return getGradientDivision(group, dtype, step.getShards(group), step.getReplicas(group));
  }
  /// The attribute of a divisor; null if it is 1.
  mlir::FloatAttr getDivisor(double divisor) {
    return divisor == 1 ? mlir::FloatAttr() : builder.getF64FloatAttr(divisor);
  }
  void update(GroupOp group, mlir::Value gradient, mlir::Value clip);

  Step &step;
  mlir::OpBuilder &builder;
  llvm::SmallVector<Sum> sums; // by group
  mlir::Value number, rate;
  int64_t lastMicrobatch;
  llvm::SmallVector<std::pair<GroupOp, mlir::Value>> reduced; // in order, with the shard's gradient
};

} // namespace fsdp

#endif // FSDP_TRANSFORMS_REDUCEGRADIENTS_H
