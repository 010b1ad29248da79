//===- ProblemBuilder.h - What both ways to a problem share -----*- C++ -*-===//

#ifndef FSDP_LIB_ANALYSIS_PROBLEMBUILDER_H
#define FSDP_LIB_ANALYSIS_PROBLEMBUILDER_H

#include "fsdp/Analysis/ScheduleProblem.h"

#include <tuple>

namespace fsdp {

/// True for what runs on the compute stream.
bool isOperation(mlir::Operation &op);

class ProblemBuilder {
public:
  ProblemBuilder(mlir::ModuleOp module, const StepMemory &memory, const cost::CostModel &costs)
      : module(module), memory(memory), costs(costs) {}

  /// Groups and costs of collectives.
  void begin(ScheduleProblem &result);
  /// What the ranks of a host may keep of a group together, if a schedule decides that.
  std::optional<schedule::Chunk> findChunk(const GroupInfo &info) const;
  schedule::CollectiveCost getGatherCost(int64_t ranks) const;

  /// Appends an operation and returns its index. `copiedBytes` is what a collective's start or wait
  /// copies.
  uint32_t add(mlir::Operation *op, int64_t copiedBytes = 0);

  void addRange(size_t range, uint32_t first, uint32_t last) {
    result->ranges.push_back({first, last, range});
  }
  /// What was gathered from `launch` on, and the copies of parameters that operation `copy` makes
  /// of it and that `last` is the last to read.
  void addCopiesOut(AllGatherWaitOp wait, uint32_t launch, uint32_t copy, uint32_t last);
  /// What the wait copies; 0: nothing, parameters lie in what was gathered.
  int64_t getCopiedOut(AllGatherWaitOp wait) const;

  /// Bytes of the parts of a reduction's input.
  int64_t getInputBytes(ReduceScatterStartOp start) const;
  int64_t getOutputBytes(ReduceScatterStartOp start) const;

  /// Sums up what is live, and how much durations spread.
  void finish();
  /// Sums up what is live, again where ranges have changed.
  void sumBytes();

private:
  /// The problem's mesh of a group, which is added if no group before had such.
  uint32_t findMesh(const GroupInfo &info);
  void collectTransports();
  void addCopyEngines(const GroupInfo &info, schedule::Mesh &mesh);
  schedule::CollectiveCost findCost(cost::CollectiveKind kind, int64_t ranks, int64_t stride);
  cost::OperationCost getCost(mlir::Operation *op, int64_t copiedBytes) const;
  cost::OperationCost getNormCost(PartialNormOp norm) const;
  int64_t getMovedBytes(StepOpInterface op) const;
  /// The ranges of parameters that the wait copies.
  llvm::SmallVector<size_t> getCopies(AllGatherWaitOp wait) const;
  int64_t sumBytes(llvm::ArrayRef<size_t> ranges) const;

  mlir::ModuleOp module;
  const StepMemory &memory;
  const cost::CostModel &costs;
  ScheduleProblem *result = nullptr;
  /// By mesh of the problem: how many shards and replicas it has, and whether a shard is copied
  /// from the host before a gather.
  std::vector<std::tuple<int64_t, int64_t, bool>> meshKeys;
  OptimizerKind optimizer = OptimizerKind::SGD;
  /// Whether some gathers from shards go by it, or as a schedule decides.
  bool usesKernels = false, usesCopyEngines = false, isTransportOpen = false;
};

} // namespace fsdp

#endif // FSDP_LIB_ANALYSIS_PROBLEMBUILDER_H
