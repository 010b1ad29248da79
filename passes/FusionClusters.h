//===- FusionClusters.h - Which calls of a step are one kernel ---*- C++ -*-===//
//
// A window holds the calls between two operations that nothing moves past: collectives, reshards,
// writes. Calls that are not fused keep their order in it. A cluster is launched at one position
// among them: behind all that it reads from outside and before all that reads its results. A call
// joins a cluster only if such a position is left.
//
// One exception: a product whose results no kernel reads may wait for one, until somebody asks for
// them, which for weights' gradients is the end of the window. What such a product reads is often
// recomputed from what another kernel reads later, behind the product of the input's gradient, and
// both are one kernel then.
//
// Views take no time. They stand before what reads them. What reads a view counts as a reader of
// what the view shows.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_FUSIONCLUSTERS_H
#define FSDP_PASSES_FUSIONCLUSTERS_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace fsdp {

/// Calls that are to be one kernel; a single one stays a call.
struct FusionCluster {
  llvm::SmallVector<aten::CallOp> calls;
  llvm::SmallPtrSet<mlir::Operation *, 16> members; // the same
  llvm::SmallVector<int64_t> domain;

  void add(aten::CallOp call) {
    calls.push_back(call);
    members.insert(call);
  }
};

/// True for the cast of a gradient that is reduced or added to others. It stays a call: what the
/// gradient was before it is asked for by name.
bool isGradientCast(aten::CallOp call);

/// True for an operation that no call moves past.
bool endsWindow(mlir::Operation &op);

class FusionClusters {
public:
  FusionClusters(mlir::func::FuncOp step, Rounding rounding);

  /// Puts each call that a kernel may hold into a cluster.
  void form();
  /// Lets clusters compute again what others hand them, where that moves fewer bytes.
  void copyCheapCalls();

  /// What is left to do, when each cluster knows its results.
  struct Launch {
    llvm::SmallVector<aten::CallOp> calls; // in program order, with the views that are read through
    llvm::SmallVector<mlir::Value> inputs, outputs;
    unsigned position = 0, rank = 0; // it stands before that operation; at one, lower ranks first
  };
  /// In the order in which they stand. What no launch holds as its own and is fusible is dead.
  std::vector<Launch> settle();

  llvm::ArrayRef<mlir::Operation *> getOperations() const { return operations; }
  unsigned getPosition(mlir::Operation *op) const { return positions.lookup(op); }
  /// True if the call is a cluster's: it goes where a launch says, or nothing reads it any more.
  bool isFusible(mlir::Operation *op) const { return owners.contains(op); }
  /// True for a call that is no kernel's and may stand behind launches that once stood behind it.
  bool canWait(mlir::Operation *op) const;
  /// What a value is a view of.
  static mlir::Value getRoot(mlir::Value value);

private:
  class Settler;
  using Number = unsigned; // of a cluster
  /// Clusters that are to be one, with one more call.
  struct Union {
    llvm::SmallVector<Number, 4> parts;
    aten::CallOp added;
  };

  bool contains(const Union &all, mlir::Operation *op) const;
  /// The value that a member reads through views that kernels read through, if `isMember` of it;
  /// else null.
  static mlir::Value findMember(mlir::Value operand,
                                llvm::function_ref<bool(mlir::Operation *)> isMember);
  /// Calls `visit` for what reads a value, through views too.
  static void forReaders(mlir::Value value, llvm::function_ref<void(mlir::Operation *)> visit);
  /// Of all its results.
  static void forReaders(mlir::Operation *op, llvm::function_ref<void(mlir::Operation *)> visit);
  /// True if a launch of all has a position, and no more operands than kernels may have.
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
  /// The calls that `reader` would have to compute for `call`, and what they read from outside.
  bool collectCopies(aten::CallOp call, Number reader, llvm::SmallSetVector<aten::CallOp, 8> &calls,
                     llvm::SmallSetVector<mlir::Value, 8> &leaves) const;
  bool reads(Number cluster, mlir::Value value) const;
  bool isStored(mlir::Value value) const;
  bool canOutlive(mlir::Value leaf, aten::CallOp from, Number reader) const;
  unsigned getLastUse(mlir::Value value) const;
  /// The position at which a reader that is no kernel's has to have what it reads.
  unsigned getDeadline(mlir::Operation *reader) const;

  Rounding rounding;
  std::vector<mlir::Operation *> operations;
  llvm::DenseMap<mlir::Operation *, unsigned> positions;
  std::vector<unsigned> windowBegins, windowEnds; // by position
  std::vector<FusionCluster> clusters;
  llvm::DenseMap<mlir::Operation *, Number> owners;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<Number, 2>> holders; // with copies
  /// The calls that read a value of their domain, the latest last.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Operation *, 2>> besides;
};

} // namespace fsdp

#endif // FSDP_PASSES_FUSIONCLUSTERS_H
