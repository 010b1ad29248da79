//===- BlockedGemm.h - fp32 matrix products with AVX-512 ------ -*- C++ -*-===//
//
// A packed, blocked matrix product after Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication" (ACM TOMS 34(3), 2008), whose order of additions is a parameter: an element of
// the product is a sum over blocks of `depth` along k. Each block is one chain of fused
// multiply-adds from zero, in order of k, and the blocks are added one after another, either to
// zero or to the first block: a sum of -0 stays -0 in the second case and becomes 0 in the first.
// BLAS libraries add in the same way, each in an order of its own; in equal orders the results are
// equal bit for bit.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_BLOCKEDGEMM_H
#define FSDP_RUNTIME_BLOCKEDGEMM_H

#include <compare>
#include <cstddef>
#include <cstdint>

namespace fsdp::rt {

/// Strides of element (i, j) of matrix `b` of a batch, in elements from the address of the first
/// one.
struct MatrixStrides {
  int64_t batch = 0, row = 0, column = 0;
  auto operator<=>(const MatrixStrides &) const = default;
};

/// C[m, n] = A[m, k] B[k, n], or bias[m, n] + A B, for each matrix of a batch. c.column is 1.
struct GemmShape {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  MatrixStrides a, b, c;
  bool hasBias = false;
  MatrixStrides bias; // stride 0: repeated
  auto operator<=>(const GemmShape &) const = default;

  double flops() const {
    return 2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
           static_cast<double>(k);
  }
};

/// C overlaps none of the others.
struct GemmOperands {
  const float *a = nullptr, *b = nullptr, *bias = nullptr;
  float *c = nullptr;
};

/// How the products of an element are added up.
struct GemmOrder {
  int64_t depth; // of a block, at least 1
  bool addsToZero = true;
};

/// A matrix product of one shape. Immutable. The operators' threads share the work, which does not
/// change the result.
class BlockedGemm {
public:
  /// True if this machine can run it.
  static bool isSupported();

  /// `threads`: at most as many as torch's intra-op threads.
  BlockedGemm(const GemmShape &shape, GemmOrder order, int threads);

  /// Bytes of workspace that run() needs.
  size_t workspaceBytes() const;

  /// `workspace` is 64-byte aligned; its contents do not matter.
  void run(const GemmOperands &operands, std::byte *workspace) const;

private:
  /// The part of C that one thread computes.
  struct Part {
    int64_t firstRow, rows, firstColumn, columns;
  };
  Part partOf(int index) const;
  void runPart(const GemmOperands &operands, const Part &part, float *workspace) const;

  GemmShape shape;
  int64_t depth;
  bool addsToZero;
  int parts;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_BLOCKEDGEMM_H
