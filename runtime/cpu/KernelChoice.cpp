//===- KernelChoice.cpp - Chooses kernels that replace operators ----------===//

#include "cpu/KernelChoice.h"

using namespace fsdp::rt;

namespace {
class GemmKernel final : public OperatorKernel {
public:
  GemmKernel(const BlockedGemm &gemm, const GemmOperands &operands)
      : gemm(gemm), operands(operands) {}
  size_t workspaceBytes() const override { return gemm.workspaceBytes(); }
  bool run(std::byte *workspace) override {
    gemm.run(operands, workspace);
    return true;
  }

private:
  const BlockedGemm gemm;
  const GemmOperands operands;
};

class AttentionKernel final : public OperatorKernel {
public:
  AttentionKernel(const FlashAttention &attention, const AttentionOperands &operands)
      : attention(attention), operands(operands) {}
  size_t workspaceBytes() const override { return attention.workspaceBytes(); }
  bool run(std::byte *workspace) override { return attention.run(operands, workspace); }

private:
  const FlashAttention attention;
  const AttentionOperands operands;
};
} // namespace

std::unique_ptr<OperatorKernel> KernelChooser::choose(const c10::OperatorHandle &op,
                                                      const std::vector<c10::IValue> &arguments,
                                                      std::span<const at::Tensor> results) {
  if (std::optional<GemmCall> call = GemmCall::of(op, arguments)) {
    if (results.size() != 1 || !isPlainFloat(results[0]) || !results[0].is_contiguous())
      return nullptr;
    call->operands.c = results[0].mutable_data_ptr<float>();
    if (std::optional<BlockedGemm> gemm = gemms.choose(*call, op, arguments))
      return std::make_unique<GemmKernel>(*gemm, call->operands);
  } else if (std::optional<AttentionCall> call = AttentionCall::of(op, arguments, results)) {
    if (std::optional<FlashAttention> chosen = attention.choose(*call, op, arguments))
      return std::make_unique<AttentionKernel>(*chosen, call->operands);
  }
  return nullptr;
}
