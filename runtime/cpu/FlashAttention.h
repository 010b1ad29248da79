//===- FlashAttention.h - fp32 attention with AVX-512 --------- -*- C++ -*-===//
//
// Scaled dot-product attention and its gradients, after Dao et al., "FlashAttention" (NeurIPS
// 2022), with the arithmetic of torch's CPU operators _scaled_dot_product_flash_attention_for_cpu
// and its backward, element by element: the same sums in the same order (see BlockedGemm.h for
// matrix products), the same exponentials, the scale at the same points. Elements that torch
// computes and then masks are left out. That changes no bit as long as no value overflows (0 times
// infinity is not 0); run() checks the magnitude of the operands first.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_FLASHATTENTION_H
#define FSDP_RUNTIME_FLASHATTENTION_H

#include <compare>
#include <cstddef>
#include <cstdint>

namespace fsdp::rt {

/// Strides of element (b, h, i, d) of a tensor, in elements; d has stride 1, if there is a d.
struct HeadStrides {
  int64_t batch = 0, head = 0, row = 0;
  auto operator<=>(const HeadStrides &) const = default;
};

/// Query heads share keys and values in equal groups. In forward `gradient*` are not used, and
/// `output` and `logSumExp` are written; in backward they are read.
struct AttentionShape {
  int64_t batch = 0, queryHeads = 0, keyHeads = 0, queries = 0, keys = 0, headSize = 0;
  bool isCausal = false; // query i sees keys 0 to i
  float scale = 1;
  HeadStrides query, key, value, output, logSumExp;
  HeadStrides gradientOutput, gradientQuery, gradientKey, gradientValue;
  auto operator<=>(const AttentionShape &) const = default;
};

/// Results must not overlap any other operand.
struct AttentionOperands {
  const float *query = nullptr, *key = nullptr, *value = nullptr;
  const float *gradientOutput = nullptr;         // read in backward
  float *output = nullptr, *logSumExp = nullptr; // written in forward, read in backward
  float *gradientQuery = nullptr, *gradientKey = nullptr, *gradientValue = nullptr;
};

/// Attention of one shape. Immutable; the threads of torch's operators share the work, which does
/// not change the result.
class FlashAttention {
public:
  /// True if this machine can run it and the shape is supported: keys and head size are multiples
  /// of a vector, and there are at most 512 keys.
  static bool isSupported(const AttentionShape &shape);

  /// `depthOf`: depth of the chains of additions in a product over k. `threads`: at most as many as
  /// torch's intra-op threads.
  FlashAttention(const AttentionShape &shape, bool isBackward, int64_t (*depthOf)(int64_t k),
                 int threads);

  /// Queries whose contributions to gradients of keys and values are summed before they are added.
  static int64_t queryBlock(int64_t queries);

  /// Bytes of workspace that run() needs.
  size_t workspaceBytes() const;

  /// `workspace` is 64-byte aligned; its contents do not matter. False, with nothing written, if
  /// the operands hold values for which the result could differ from torch's.
  bool run(const AttentionOperands &operands, std::byte *workspace) const;

private:
  bool isTame(const AttentionOperands &operands) const;
  void runForward(const AttentionOperands &operands, int64_t batch, int64_t keyHead,
                  float *workspace) const;
  void runBackward(const AttentionOperands &operands, int64_t batch, int64_t keyHead,
                   float *workspace) const;
  int64_t visibleKeys(int64_t query) const;

  AttentionShape shape;
  bool isBackward;
  int64_t (*depthOf)(int64_t k);
  int parts;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_FLASHATTENTION_H
