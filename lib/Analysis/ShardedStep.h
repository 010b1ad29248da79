//===- ShardedStep.h - A sharded step as a problem --------------*- C++ -*-===//
//
// ScheduleProblem.cpp reads the step and writes the problem, ShardedHostCopies.cpp the host copies.
//
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_SHARDEDSTEP_H
#define FSDP_LIB_ANALYSIS_SHARDEDSTEP_H

#include "HostCopySchedule.h"

namespace fsdp {

/// Operations have two indices: in program order without those that wait for reductions ("calls"),
/// which do not move; and among all operations, including the latter, copies and pauses.
class ShardedStep {
public:
  ShardedStep(mlir::ModuleOp module, const StepMemory &memory, const cost::CostModel &costs)
      : memory(memory), costs(costs), builder(module, memory, costs) {}

  llvm::FailureOr<ScheduleProblem>
  build(UpdatePlacement placement, std::optional<int64_t> memoryCapBytes, bool mayOffloadChunks);

private:
  /// A reader of a reduced shard, placed before the call of this index.
  struct PlacedReader {
    mlir::Operation *op;
    uint32_t before;
  };
  struct Use {
    AllGatherStartOp start;
    uint32_t group, first, last;          // calls
    std::optional<uint32_t> copyOut = {}; // operation
    // Pauses of a group that may keep chunks: the one in which this use's chunk is copied, and the
    // one in which the previous use's chunk is still live beside the gathered copy.
    std::optional<uint32_t> makesChunk = {}, hasChunk = {};
  };
  struct Reduction {
    ReduceScatterStartOp start;
    uint32_t group, ready;               // number of calls
    std::optional<uint32_t> copyIn = {}; // operation
  };

  void collect();
  llvm::LogicalResult checkTransports();
  llvm::LogicalResult collectReductions();
  void placeReaders(UpdatePlacement placement);
  std::vector<uint8_t> findPauses() const;
  void addCopyIn(Reduction &reduction);
  void addCopyOut(Use &use);
  bool mayChunk(const Use &use) const { return !result.problem.groups[use.group].chunks.empty(); }
  void addOperations();
  void addRanges();
  void addUses();
  void addReductions();
  void addReducedShards();
  void addHostCopies();
  void addValueCopy(FetchStartOp fetch);
  /// The index of a call among all operations.
  uint32_t toOperation(uint32_t call) const { return operationOfCall[call]; }
  /// The position, among all operations, after this many calls and before the pause and updates
  /// that follow them.
  uint32_t toPosition(uint32_t numCalls) const {
    return numCalls == 0 ? 0 : positionBehindCall[numCalls - 1];
  }
  /// The position at which a reduction's input is complete.
  uint32_t toPosition(const Reduction &reduction) const {
    return reduction.copyIn ? *reduction.copyIn + 1 : toPosition(reduction.ready);
  }
  uint32_t indexOf(mlir::FlatSymbolRefAttr group) const {
    return memory.groups.lookup(group).index;
  }

  const StepMemory &memory;
  const cost::CostModel &costs;
  ProblemBuilder builder;
  ScheduleProblem result;
  std::vector<mlir::Operation *> calls;
  std::optional<uint32_t> norm; // the call that reads all reduced gradients, before updates
  std::vector<uint32_t> firstCall, lastCall; // by storage
  llvm::SmallVector<std::pair<ReduceScatterStartOp, uint32_t>>
      starts;                     // with the number of calls before
  std::vector<uint32_t> lastMade; // by start: the last call before it that touches its gradients
  std::vector<Use> uses;
  std::vector<Reduction> reductions;
  std::vector<PlacedReader> readers;
  llvm::DenseMap<mlir::Operation *, uint32_t>
      callsBefore;                    // of copies of values: the number of calls
  std::vector<CopyBounds> copyBounds; // by copy of the result
  llvm::DenseSet<size_t> storedRanges; // of values that are copied to the host
  std::vector<uint32_t> operationOfCall, positionBehindCall; // the latter after copies of chunks
  llvm::DenseMap<mlir::Operation *, uint32_t> operationOfReader; // including the norm
};

} // namespace fsdp

#endif // FSDP_LIB_ANALYSIS_SHARDEDSTEP_H
