//===- ShapesByRunning.h - Shapes from running an operator ------*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_SHAPESBYRUNNING_H
#define FSDP_LIB_FRONTEND_SHAPESBYRUNNING_H

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace fsdp::frontend {

/// True if the results have the same shapes for any values of the operands: for a function that
/// makes new tensors whose sizes do not depend on them.
bool mayRunOnExample(const c10::OperatorHandle &op);

/// A tensor on `device` with the sizes, strides and dtype of `like`, zeros unless the device is
/// meta; `like` itself if it is on this device, or undefined.
at::Tensor makeOn(c10::DeviceType device, const at::Tensor &like);

/// The results, on the meta device, of the CPU's kernel for zeros with ones on the diagonals of
/// matrices, which factorizations accept. Throws the kernel's exceptions.
std::vector<c10::IValue> runOnExample(const c10::OperatorHandle &op,
                                      std::vector<c10::IValue> arguments);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_SHAPESBYRUNNING_H
