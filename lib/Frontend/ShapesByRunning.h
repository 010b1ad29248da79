//===- ShapesByRunning.h - Shapes from running an operator ------*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_SHAPESBYRUNNING_H
#define FSDP_LIB_FRONTEND_SHAPESBYRUNNING_H

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace fsdp::frontend {

/// True if the results for zeros have the same shapes as for any operands: for a function that
/// makes new tensors whose sizes do not depend on the operands' values.
bool mayRunOnZeros(const c10::OperatorHandle &op);

/// A tensor on `device` with the sizes, strides and dtype of `like`, zeros unless the device is
/// meta; `like` itself if it is on this device, or undefined.
at::Tensor makeOn(c10::DeviceType device, const at::Tensor &like);

/// The results of the CPU's kernel for zeros, on the meta device. Throws the kernel's exceptions.
std::vector<c10::IValue> runOnZeros(const c10::OperatorHandle &op,
                                    std::vector<c10::IValue> arguments);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_SHAPESBYRUNNING_H
