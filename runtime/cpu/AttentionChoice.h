//===- AttentionChoice.h - Chooses the kernel of an attention - -*- C++ -*-===//
//
// FlashAttention replaces torch's operator for attention on a CPU, or its backward, where it gives
// the same bits in less time. As for matrix products (GemmChoice.h), each distinct call of a plan
// is tried on random data.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_ATTENTIONCHOICE_H
#define FSDP_RUNTIME_ATTENTIONCHOICE_H

#include "cpu/FlashAttention.h"
#include "cpu/KernelTrial.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace fsdp::rt {

/// The attention that a call of `op` computes into `results`, if FlashAttention can compute it:
/// fp32, no dropout, no mask.
struct AttentionCall {
  bool isBackward = false;
  AttentionShape shape;
  AttentionOperands operands;
  static std::optional<AttentionCall> of(const c10::OperatorHandle &op,
                                         const std::vector<c10::IValue> &arguments,
                                         std::span<const at::Tensor> results);
};

/// Chooses a kernel for each call, once per shape.
class AttentionChooser {
public:
  /// `threads`: number of threads of an operator.
  explicit AttentionChooser(int threads) : threads(threads) {}

  /// The kernel for `call` of `op` with `arguments`, or none: torch's operator.
  std::optional<FlashAttention> choose(const AttentionCall &call, const c10::OperatorHandle &op,
                                       const std::vector<c10::IValue> &arguments);

private:
  std::optional<FlashAttention> measure(const AttentionCall &call, const c10::OperatorHandle &op,
                                        const std::vector<c10::IValue> &arguments);

  const int threads;
  KernelTrials trials;
  std::map<std::pair<bool, AttentionShape>, std::optional<FlashAttention>> chosen;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_ATTENTIONCHOICE_H
