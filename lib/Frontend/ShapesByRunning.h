//===- ShapesByRunning.h - Shapes that an operator itself shows -*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_SHAPESBYRUNNING_H
#define FSDP_LIB_FRONTEND_SHAPESBYRUNNING_H

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace fsdp::frontend {

/// True where zeros have results as any operands have: of a function that makes new tensors, whose
/// sizes do not depend on what the operands hold.
bool mayRunOnZeros(const c10::OperatorHandle &op);

/// A tensor on `device`, of zeros unless that is meta, with the sizes, strides and dtype of `like`;
/// `like` itself if it is there already, or undefined.
at::Tensor makeOn(c10::DeviceType device, const at::Tensor &like);

/// The results of the CPU's kernel on zeros, on the meta device. Throws what the kernel throws.
std::vector<c10::IValue> runOnZeros(const c10::OperatorHandle &op,
                                    std::vector<c10::IValue> arguments);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_SHAPESBYRUNNING_H
