//===- ShapesByRunning.h - Shapes that an operator itself shows -*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_SHAPESBYRUNNING_H
#define FSDP_LIB_FRONTEND_SHAPESBYRUNNING_H

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace fsdp::frontend {

/// True where zeros have results as any operands have: of a function that makes new tensors, whose
/// sizes do not depend on what the operands hold.
bool mayRunOnZeros(const c10::OperatorHandle &op);

/// The results of the CPU's kernel on zeros, on the meta device. Throws what the kernel throws.
std::vector<c10::IValue> runOnZeros(const c10::OperatorHandle &op,
                                    std::vector<c10::IValue> arguments);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_SHAPESBYRUNNING_H
