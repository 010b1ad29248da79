//===- KernelChoice.h - Chooses kernels that replace operators -*- C++ -*-===//

#ifndef FSDP_RUNTIME_KERNELCHOICE_H
#define FSDP_RUNTIME_KERNELCHOICE_H

#include "cpu/AttentionChoice.h"
#include "cpu/GemmChoice.h"
#include "cpu/OperatorKernel.h"

#include <memory>

namespace fsdp::rt {

/// Finds kernels for the calls of a plan on a CPU. All give torch's bits.
class KernelChooser {
public:
  /// `threads`: number of threads of an operator.
  explicit KernelChooser(int threads) : gemms(threads), attention(threads) {}

  /// The kernel for a call of `op` that writes `results` (one per result of the operator;
  /// undefined: not wanted), or null: torch's operator. May run the operator on other memory, and
  /// throws the operator's exceptions.
  std::unique_ptr<OperatorKernel> choose(const c10::OperatorHandle &op,
                                         const std::vector<c10::IValue> &arguments,
                                         std::span<const at::Tensor> results);

private:
  GemmChooser gemms;
  AttentionChooser attention;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_KERNELCHOICE_H
