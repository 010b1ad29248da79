//===- StepBuilder.h - A recorded step as IR ---------------------*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_STEPBUILDER_H
#define FSDP_LIB_FRONTEND_STEPBUILDER_H

#include "Model.h"

namespace fsdp::frontend {

/// The results of the recorded step, as values of the graph.
struct StepOutputs {
  bool isEvaluation = false; // only the forward: no gradients, no updates
  int loss = -1;
  int lossScale = -1;         // -1: the loss is not scaled
  std::vector<int> gradients; // one per parameter that is not frozen, in model order
  std::vector<std::pair<size_t, int>> writes; // (index of a buffer in Model::tensors, new value)
};

/// The module of the step, without calls that no result needs. Throws CaptureError.
mlir::OwningOpRef<mlir::ModuleOp> buildStep(Model &model, const StepOutputs &outputs,
                                            const OptimizerSpec &optimizer,
                                            mlir::MLIRContext &context);

/// One argument of a call as an attribute; tensors are appended to `operands` as values of the
/// graph. Throws CaptureError.
mlir::Attribute convertArgument(const c10::IValue &value, const c10::Argument &formal,
                                const Graph &graph, std::vector<int> &operands,
                                mlir::MLIRContext &context);

/// The element type of a dtype.
mlir::Type convertDtype(at::ScalarType dtype, mlir::MLIRContext &context);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_STEPBUILDER_H
