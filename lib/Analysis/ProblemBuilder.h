//===- ProblemBuilder.h - What both ways to a problem share -----*- C++ -*-===//

#ifndef FSDP_LIB_ANALYSIS_PROBLEMBUILDER_H
#define FSDP_LIB_ANALYSIS_PROBLEMBUILDER_H

#include "fsdp/Analysis/ScheduleProblem.h"

namespace fsdp {

/// True for what runs on the compute stream.
bool isOperation(mlir::Operation &op);

class ProblemBuilder {
public:
  ProblemBuilder(mlir::ModuleOp module, const StepMemory &memory, const cost::CostModel &costs)
      : module(module), memory(memory), costs(costs) {}

  /// Groups and costs of collectives. Errors name a group in the per-param layout.
  llvm::LogicalResult begin(ScheduleProblem &result);

  /// Appends an operation and returns its index. `copiedBytes` is what a collective's start or an
  /// fsdp.grad copies.
  uint32_t add(mlir::Operation *op, int64_t copiedBytes = 0);

  void addRange(size_t range, uint32_t first, uint32_t last) {
    result->ranges.push_back({first, last, range});
  }

  /// Bytes of the parts of a reduction's input.
  int64_t getInputBytes(ReduceScatterStartOp start) const;
  int64_t getOutputBytes(ReduceScatterStartOp start) const;

  /// Sums up what is live, and how much durations spread.
  void finish();
  /// Sums up what is live, again where ranges have changed.
  void sumBytes();

private:
  cost::OperationCost getCost(mlir::Operation *op, int64_t copiedBytes) const;
  cost::OperationCost getNormCost() const;

  mlir::ModuleOp module;
  const StepMemory &memory;
  const cost::CostModel &costs;
  ScheduleProblem *result = nullptr;
  OptimizerKind optimizer = OptimizerKind::SGD;
};

} // namespace fsdp

#endif // FSDP_LIB_ANALYSIS_PROBLEMBUILDER_H
