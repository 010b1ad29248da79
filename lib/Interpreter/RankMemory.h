//===- RankMemory.h - Where one rank's tensors lie ---------------*- C++ -*-===//

#ifndef FSDP_LIB_INTERPRETER_RANKMEMORY_H
#define FSDP_LIB_INTERPRETER_RANKMEMORY_H

#include "fsdp/IR/TensorLayout.h"

#include <ATen/core/Tensor.h>

#include <optional>

namespace fsdp::interpreter {

/// Memory of one rank: an arena with planned offsets, or each tensor by itself.
class RankMemory {
public:
  /// Without arena if there are no `arenaBytes`.
  explicit RankMemory(std::optional<int64_t> arenaBytes);

  bool isPlanned() const { return arena.defined(); }

  /// A tensor of this type at `offset` of the arena, or, without arena, of its own. What lies there
  /// stays. Throws std::runtime_error where the arena has no such bytes.
  at::Tensor place(mlir::RankedTensorType type, std::optional<int64_t> offset) const;
  /// Likewise, of one dimension.
  at::Tensor placeFlat(int64_t elements, mlir::Type element, std::optional<int64_t> offset) const;

private:
  at::Tensor allocate(int64_t elements, mlir::Type element, std::optional<int64_t> offset) const;

  at::Tensor arena; // bytes
};

/// Fills the bytes from the tensor's first to its last element with ones: NaNs.
void poison(const at::Tensor &tensor);
/// True if nobody has written to a contiguous tensor since.
bool isPoisoned(const at::Tensor &tensor);
/// Equal bits of contiguous tensors of one size and dtype.
bool haveEqualBits(const at::Tensor &a, const at::Tensor &b);

} // namespace fsdp::interpreter

#endif // FSDP_LIB_INTERPRETER_RANKMEMORY_H
