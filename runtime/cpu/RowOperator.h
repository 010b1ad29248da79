//===- RowOperator.h - Operators that work row by row ------------*- C++ -*-===//
//
// An operator whose results in a row depend on the same row of its operands alone (element by
// element, or a sum over the row), or that adds up rows in their order. Several of them can run one
// after another on some rows before they go on to the next ones: see RowChain.h.
//
// A tensor's last dimension is the row; the dimensions before it number the rows.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_ROWOPERATOR_H
#define FSDP_RUNTIME_ROWOPERATOR_H

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace fsdp::rt {

enum class RowKind {
  Multiply,
  Add,
  MultiplyByNumber,
  AddNumber,
  DivideByNumber,
  Negate,
  Copy,
  Square,
  Cube,
  ReciprocalRoot,
  Silu,
  SiluBackward, // of the gradient and silu's operand
  Concatenate,  // of the operands' rows
  RowSum,
  RowMean,
  ColumnSum // of all rows
};

/// Dimensions that number rows; missing ones have size 1.
constexpr int kRowDimensions = 3;
using RowSizes = std::array<int64_t, kRowDimensions>;
/// Of an operator.
constexpr size_t kMostRowInputs = 4;

/// Where a row of an fp32 tensor is and what it holds. Strides are in elements.
struct RowLayout {
  RowSizes strides{};
  int64_t columns = 0;
  int64_t columnStride = 1; // or 0: one number for the whole row
  auto operator<=>(const RowLayout &) const = default;
};

/// What an operator computes; orders the ones that were tried.
struct RowShape {
  RowKind kind{};
  RowSizes sizes{};
  float number = 0;
  std::vector<RowLayout> inputs;
  RowLayout output; // of a ColumnSum: strides 0
  auto operator<=>(const RowShape &) const = default;
};

struct RowOperator {
  RowShape shape;
  std::vector<float *> inputs;
  float *output = nullptr;

  int64_t rows() const { return shape.sizes[0] * shape.sizes[1] * shape.sizes[2]; }

  /// What a call of `op` computes and writes to `results`, if it is one of the above on fp32
  /// tensors, in a form that torch computes by vectors only. `threads`: of an operator.
  static std::optional<RowOperator> of(const c10::OperatorHandle &op,
                                       const std::vector<c10::IValue> &arguments,
                                       std::span<const at::Tensor> results, int threads);
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_ROWOPERATOR_H
