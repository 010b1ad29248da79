//===- RankMemory.h - Where one rank's tensors lie ---------------*- C++ -*-===//

#ifndef FSDP_LIB_INTERPRETER_RANKMEMORY_H
#define FSDP_LIB_INTERPRETER_RANKMEMORY_H

#include "fsdp/IR/TensorLayout.h"

#include <ATen/core/Tensor.h>

#include <optional>

namespace fsdp::interpreter {

/// Memory of one rank: an arena with planned offsets, or separate tensors.
class RankMemory {
public:
  /// Without `arenaBytes` there is no arena.
  explicit RankMemory(std::optional<int64_t> arenaBytes);

  bool isPlanned() const { return arena.defined(); }

  /// A tensor of this type at `offset` of the arena, with the arena's content, or a separate tensor
  /// without an arena. Throws std::runtime_error for an offset outside of the arena.
  at::Tensor place(mlir::RankedTensorType type, std::optional<int64_t> offset) const;
  /// Likewise with one dimension.
  at::Tensor placeFlat(int64_t elements, mlir::Type element, std::optional<int64_t> offset) const;

private:
  at::Tensor allocate(int64_t elements, mlir::Type element, std::optional<int64_t> offset) const;

  at::Tensor arena; // bytes
};

/// Sets all bits from the tensor's first to its last element: NaNs.
void poison(const at::Tensor &tensor);
/// True if a contiguous tensor was not written to since `poison`.
bool isPoisoned(const at::Tensor &tensor);
/// True if two contiguous tensors of one size and dtype have equal bits.
bool haveEqualBits(const at::Tensor &a, const at::Tensor &b);

} // namespace fsdp::interpreter

#endif // FSDP_LIB_INTERPRETER_RANKMEMORY_H
