//===- TensorLayout.h - Strides and storage of tensor types -----*- C++ -*-===//
//
// A tensor type without encoding is contiguous at offset 0 of its storage; any other layout is an
// aten::StridesAttr encoding. Strides and offsets are in elements, sizes in bytes where they say so.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_TENSORLAYOUT_H
#define FSDP_IR_TENSORLAYOUT_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"

namespace fsdp {

struct TensorLayout {
  llvm::SmallVector<int64_t, 4> strides;
  int64_t offset = 0;
};

/// The strides (elements) and the offset from the storage's beginning (elements) of `type`.
TensorLayout getTensorLayout(mlir::RankedTensorType type);

/// The type with these sizes, strides and offset; without encoding if contiguous at offset 0.
mlir::RankedTensorType getStridedTensorType(llvm::ArrayRef<int64_t> sizes, mlir::Type element,
                                            llvm::ArrayRef<int64_t> strides, int64_t offset);

/// True if the elements are adjacent in row-major order, at any offset. Strides of dimensions of
/// size 1 are ignored.
bool isContiguous(mlir::RankedTensorType type);

/// True if two elements have one address, as in an expanded view. Also true for some layouts with
/// interleaved dimensions, which no operator makes.
bool overlapsItself(mlir::RankedTensorType type);

/// Bytes of one element; bool (i1) takes one byte.
int64_t getElementBytes(mlir::Type element);

/// Bytes from the storage's beginning to the end of the last element; 0 for an empty tensor. For a
/// tensor that owns its storage, this is the size that torch allocates.
int64_t getStorageBytes(mlir::RankedTensorType type);

} // namespace fsdp

#endif // FSDP_IR_TENSORLAYOUT_H
