//===- OperatorKernel.h - A kernel in the place of an operator ---*- C++ -*-===//

#ifndef FSDP_RUNTIME_OPERATORKERNEL_H
#define FSDP_RUNTIME_OPERATORKERNEL_H

#include <cstddef>

namespace fsdp::rt {

/// A kernel of the runtime, bound to the operands of one call, that writes what the operator would,
/// bit for bit. Belongs to the thread that runs the step.
class OperatorKernel {
public:
  virtual ~OperatorKernel() = default;
  virtual size_t workspaceBytes() const = 0;
  /// `workspace` is 64-byte aligned; its contents do not matter. False: the operator is to be
  /// called, as the operands are not what the kernel can take.
  virtual bool run(std::byte *workspace) = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_OPERATORKERNEL_H
