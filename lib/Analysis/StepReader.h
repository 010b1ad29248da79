//===- StepReader.h - A scheduled step as problem and plan -------*- C++ -*-===//
//
// StepReader.cpp reads the operations, ScheduledStep.cpp writes the problem and the plan.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_STEPREADER_H
#define FSDP_LIB_ANALYSIS_STEPREADER_H

#include "ProblemBuilder.h"
#include "fsdp/Analysis/ScheduleProblem.h"

#include <optional>

namespace fsdp {

/// The order of events at one position of a problem. A gather's wait may come before or after the
/// next gather's start: on one lane that makes no difference.
enum class EventOrder { None, StoreWait, Reshard, ReductionWait, Reduction, Gather, Fetch };

/// Walks over a scheduled step, notes the positions of its events, then writes problem and plan.
class StepReader {
public:
  StepReader(mlir::ModuleOp module, const StepMemory &memory, const cost::CostModel &costs)
      : memory(memory), costs(costs), builder(module, memory, costs),
        endsAt(memory.ranges.getNumPositions()) {}

  llvm::FailureOr<ScheduledStep> build();

private:
  struct Gather {
    AllGatherStartOp start;
    uint32_t group, launch, bucket;
    uint32_t wait = 0, last = UINT32_MAX;
    /// The last operation of the forward and the first of the backward that read it.
    std::optional<uint32_t> lastForward = {}, firstBackward = {};
  };
  struct Reduction {
    ReduceScatterStartOp start;
    uint32_t group, launch, bucket;
    uint32_t wait = 0;
    int64_t waitPosition = 0;
    std::optional<uint32_t> reader = {}; // of the reduced shard
  };

  uint32_t getNumOperations() const { return result.operations.size(); }
  uint32_t indexOf(mlir::FlatSymbolRefAttr group) const {
    return memory.groups.lookup(group).index;
  }
  const LiveRange &getRange(size_t index) const { return memory.ranges.getRanges()[index]; }

  void addOperation(mlir::Operation *op, int64_t copiedBytes = 0) {
    builder.add(op, copiedBytes);
    order = EventOrder::None;
  }
  /// Notes an event of this kind. A pause separates it from preceding events of a later kind.
  void enter(EventOrder next) {
    if (next < order)
      addOperation(nullptr);
    order = next;
  }
  /// Reads the next operation of the step.
  void read(mlir::Operation &op);
  void noteReaders(mlir::Operation &op, aten::Phase phase);
  void noteReader(mlir::Operation &op);
  bool isInBucket(const Reduction &reduction) const;
  int64_t getCopiedBytes(llvm::ArrayRef<size_t> parts) const;
  void visit(AllGatherStartOp start);
  void visit(ReduceScatterStartOp start);
  void visit(ReduceScatterWaitOp wait);
  void visit(ReshardOp reshard);
  void visit(AllGatherWaitOp wait);
  void visitPack(mlir::Operation *pack);
  void visitHostCopy(StepOpInterface op);
  ScheduledHostCopy &followHostCopy(StepOpInterface op);
  void endHostCopies();
  void visitOther();
  void addRanges();
  void addChunks();
  void addUses();
  void addStoresOfChunks();
  void splitBuckets();
  llvm::LogicalResult addReductions();

  const StepMemory &memory;
  const cost::CostModel &costs;
  ProblemBuilder builder;
  ScheduledStep result;
  std::vector<uint8_t> endsAt; // by position: a range of the problem's operations ends here
  /// By position: the last operation up to it.
  std::vector<uint32_t> operationAt;
  std::vector<uint32_t> lastReader; // by storage: the last operation that touches it
  int64_t position = 0;
  EventOrder order = EventOrder::None;
  std::vector<Gather> gathers;
  std::vector<Reduction> reductions;
  llvm::DenseMap<mlir::Operation *, size_t> gatherOf, reductionOf; // by start
  llvm::DenseMap<mlir::Value, size_t> hostCopyOf;                  // by handles and copied values
  uint32_t numGatherBuckets = 0, numReductionBuckets = 0;
  std::vector<uint32_t> splitBucketOf; // by reduction
};

} // namespace fsdp

#endif // FSDP_LIB_ANALYSIS_STEPREADER_H
