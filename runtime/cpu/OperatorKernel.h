//===- OperatorKernel.h - A kernel that replaces an operator -- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_OPERATORKERNEL_H
#define FSDP_RUNTIME_OPERATORKERNEL_H

#include <cstddef>

namespace fsdp::rt {

/// A kernel of the runtime, bound to the operands of one call, that writes the operator's results
/// bit for bit. Used by the thread that runs the step.
class OperatorKernel {
public:
  virtual ~OperatorKernel() = default;
  virtual size_t workspaceBytes() const = 0;
  /// `workspace` is 64-byte aligned; its contents do not matter. False: the operator must be
  /// called, since the kernel cannot take these operands.
  virtual bool run(std::byte *workspace) = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_OPERATORKERNEL_H
