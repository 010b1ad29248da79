//===- ProblemBuilder.h - Builds scheduling problems ------------*- C++ -*-===//

#ifndef FSDP_LIB_ANALYSIS_PROBLEMBUILDER_H
#define FSDP_LIB_ANALYSIS_PROBLEMBUILDER_H

#include "fsdp/Analysis/ScheduleProblem.h"

#include <tuple>

namespace fsdp {

/// True for operations that run on the compute stream.
bool isOperation(mlir::Operation &op);

class ProblemBuilder {
public:
  ProblemBuilder(mlir::ModuleOp module, const StepMemory &memory, const cost::CostModel &costs)
      : module(module), memory(memory), costs(costs) {}

  /// Sets groups and costs of collectives.
  void begin(ScheduleProblem &result);
  /// The chunks that each rank of a host may keep of a group, if the schedule may decide that: on
  /// the device, and with `mayOffload` on the host.
  std::vector<schedule::Chunk> findChunks(const GroupInfo &info, bool mayOffload) const;
  /// Of chunks of `ranks` neighbours.
  schedule::CollectiveCost getGatherCost(int64_t ranks, bool isFromHost) const;

  /// Appends an operation and returns its index. `copiedBytes` are the bytes that a collective's
  /// start or wait copies.
  uint32_t add(mlir::Operation *op, int64_t copiedBytes = 0);

  void addRange(size_t range, uint32_t first, uint32_t last) {
    result->ranges.push_back({first, last, range});
  }
  /// Adds the gathered copy, live from `launch` on, and the parameters that operation `copy` copies
  /// out of it, last read by operation `last`.
  void addCopiesOut(AllGatherWaitOp wait, uint32_t launch, uint32_t copy, uint32_t last);
  /// Bytes that the wait copies; 0 if the parameters are views of the gathered copy.
  int64_t getCopiedOut(AllGatherWaitOp wait) const;

  /// Bytes of the parts of a reduction's input.
  int64_t getInputBytes(ReduceScatterStartOp start) const;
  int64_t getOutputBytes(ReduceScatterStartOp start) const;

  /// Sums live bytes, and the deviations of durations.
  void finish();
  /// Sums live bytes again after ranges have changed.
  void sumBytes();

private:
  /// The group's mesh in the problem, added if it is new.
  uint32_t findMesh(const GroupInfo &info);
  void collectTransports();
  void addCopyEngines(const GroupInfo &info, schedule::Mesh &mesh);
  schedule::CollectiveCost findCost(cost::CollectiveKind kind, int64_t ranks, int64_t stride);
  cost::OperationCost getCost(mlir::Operation *op, int64_t copiedBytes) const;
  cost::OperationCost getNormCost(PartialNormOp norm) const;
  cost::OperationCost getCallCost(aten::CallOp call) const;
  int64_t getMovedBytes(StepOpInterface op) const;
  /// The ranges of parameters that the wait copies.
  llvm::SmallVector<size_t> getCopies(AllGatherWaitOp wait) const;
  int64_t sumBytes(llvm::ArrayRef<size_t> ranges) const;

  mlir::ModuleOp module;
  const StepMemory &memory;
  const cost::CostModel &costs;
  ScheduleProblem *result = nullptr;
  /// By mesh of the problem: its numbers of shards and replicas, and whether gathers first copy the
  /// shard from the host.
  std::vector<std::tuple<int64_t, int64_t, bool>> meshKeys;
  OptimizerKind optimizer = OptimizerKind::SGD;
  /// Whether some gathers of shards use this transport, or leave it to the schedule.
  bool usesKernels = false, usesCopyEngines = false, isTransportOpen = false;
};

} // namespace fsdp

#endif // FSDP_LIB_ANALYSIS_PROBLEMBUILDER_H
