//===- FusionClusters.h - Clusters of calls that form one kernel -*- C++ -*-===//
//
// A window holds the calls between two operations that no call may cross: collectives, reshards,
// writes. Calls that are not fused keep their order in the window. A cluster is launched at one
// position among them: after everything that it reads from outside and before all readers of its
// results. A call joins a cluster only if such a position remains.
//
// There is one exception: a matrix product whose results no kernel reads may move down to wait for
// a kernel, at most to the first reader of its results, which for weights' gradients is the end of
// the window. The operands of such a product are often recomputed from values that another kernel
// reads later, after the product of the input's gradient. Both computations then are one kernel.
//
// Views take no time. They are placed before their readers. A reader of a view counts as a reader
// of the viewed value.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_FUSIONCLUSTERS_H
#define FSDP_PASSES_FUSIONCLUSTERS_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace fsdp {

/// Calls that form one kernel. A cluster of one call stays a call.
struct FusionCluster {
  llvm::SmallVector<aten::CallOp> calls;
  llvm::SmallPtrSet<mlir::Operation *, 16> members; // `calls` as a set
  llvm::SmallVector<int64_t> domain;

  void add(aten::CallOp call) {
    calls.push_back(call);
    members.insert(call);
  }
};

/// True for the cast of a gradient that is reduced or added to others. It stays a call, since other
/// code looks for the value of the gradient before the cast.
bool isGradientCast(aten::CallOp call);

/// True for an operation that no call may cross.
bool endsWindow(mlir::Operation &op);

class FusionClusters {
public:
  FusionClusters(mlir::func::FuncOp step, Rounding rounding);

  /// Assigns each fusible call to a cluster.
  void form();
  /// Lets clusters recompute values of other clusters where this moves fewer bytes.
  void copyCheapCalls();

  /// A cluster with its final calls, results and position.
  struct Launch {
    llvm::SmallVector<aten::CallOp> calls; // in program order, with views inside the kernel
    llvm::SmallVector<mlir::Value> inputs, outputs;
    // The launch is placed before that operation; launches of equal position are ordered by rank.
    unsigned position = 0, rank = 0;
  };
  /// The launches in the order of their positions. A fusible call that is in no launch of its own
  /// cluster is dead.
  std::vector<Launch> settle();

  llvm::ArrayRef<mlir::Operation *> getOperations() const { return operations; }
  unsigned getPosition(mlir::Operation *op) const { return positions.lookup(op); }
  /// True if the call belongs to a cluster: it moves into that cluster's launch, or is dead.
  bool isFusible(mlir::Operation *op) const { return owners.contains(op); }
  /// True for a call outside of kernels that may move behind launches that were after it.
  bool canWait(mlir::Operation *op) const;
  /// The value that `value` views, or `value` itself.
  static mlir::Value getRoot(mlir::Value value);

private:
  class Settler;
  using Number = unsigned; // number of a cluster
  /// Clusters that may be merged, and one more call.
  struct Union {
    llvm::SmallVector<Number, 4> parts;
    aten::CallOp added;
  };

  bool contains(const Union &all, mlir::Operation *op) const;
  /// The value behind `operand` and the views that a kernel can read through, if `isMember` is true
  /// of its operation; else null.
  static mlir::Value findMember(mlir::Value operand,
                                llvm::function_ref<bool(mlir::Operation *)> isMember);
  /// Calls `visit` for each reader of a value, directly or through views.
  static void forReaders(mlir::Value value, llvm::function_ref<void(mlir::Operation *)> visit);
  /// The same for all results of an operation.
  static void forReaders(mlir::Operation *op, llvm::function_ref<void(mlir::Operation *)> visit);
  /// True if a launch of the union has a position, and no more operands than a kernel may have.
  bool canBeOne(const Union &all) const;
  unsigned countTensors(const Union &all) const;
  bool canShareRows(llvm::ArrayRef<aten::CallOp> calls) const;

  void place(aten::CallOp call);
  void placeConcatenation(aten::CallOp call);
  void unite(const Union &all, llvm::ArrayRef<int64_t> domain);
  std::optional<llvm::SmallVector<int64_t>> join(const FusionCluster &cluster,
                                                 aten::CallOp call) const;
  std::optional<llvm::SmallVector<int64_t>> getCommonDomain(llvm::ArrayRef<Number> parts,
                                                            aten::CallOp call) const;
  bool hasReduction(const FusionCluster &cluster) const;
  bool isNarrowPart(Number part, aten::CallOp concatenation) const;
  std::optional<Number> findBeside(const Union &all) const;

  llvm::SmallVector<Number> findSources(aten::CallOp call) const;

  bool canCopy(aten::CallOp call) const;
  void considerCopies(aten::CallOp call);
  /// Collects the calls that `reader` would have to compute for `call`, and `leaves`, the values
  /// that these calls read from outside.
  bool collectCopies(aten::CallOp call, Number reader, llvm::SmallSetVector<aten::CallOp, 8> &calls,
                     llvm::SmallSetVector<mlir::Value, 8> &leaves) const;
  bool reads(Number cluster, mlir::Value value) const;
  bool isStored(mlir::Value value) const;
  bool canOutlive(mlir::Value leaf, aten::CallOp from, Number reader) const;
  unsigned getLastUse(mlir::Value value) const;
  /// The position by which the operands of a reader outside of kernels must be computed.
  unsigned getDeadline(mlir::Operation *reader) const;

  Rounding rounding;
  std::vector<mlir::Operation *> operations;
  llvm::DenseMap<mlir::Operation *, unsigned> positions;
  std::vector<unsigned> windowBegins, windowEnds; // for each position
  std::vector<FusionCluster> clusters;
  llvm::DenseMap<mlir::Operation *, Number> owners;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<Number, 2>> holders; // with copies
  /// For each value, the calls of the same domain that read it, the latest last.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Operation *, 2>> besides;
};

} // namespace fsdp

#endif // FSDP_PASSES_FUSIONCLUSTERS_H
