//===- TensorLayout.cpp - Strides and storage of tensor types -------------===//

#include "fsdp/IR/TensorLayout.h"

#include "fsdp/IR/Aten.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

static SmallVector<int64_t, 4> getRowMajorStrides(ArrayRef<int64_t> sizes) {
  SmallVector<int64_t, 4> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    // As in torch, an empty dimension counts as size 1.
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

fsdp::TensorLayout fsdp::getTensorLayout(RankedTensorType type) {
  if (auto strided = dyn_cast_or_null<aten::StridesAttr>(type.getEncoding()))
    return {llvm::to_vector<4>(strided.getStrides()), strided.getOffset()};
  return {getRowMajorStrides(type.getShape()), 0};
}

RankedTensorType fsdp::getStridedTensorType(ArrayRef<int64_t> sizes, Type element,
                                            ArrayRef<int64_t> strides, int64_t offset) {
  if (offset == 0 && ArrayRef<int64_t>(getRowMajorStrides(sizes)) == strides)
    return RankedTensorType::get(sizes, element);
  return RankedTensorType::get(sizes, element,
                               aten::StridesAttr::get(element.getContext(), strides, offset));
}

bool fsdp::isContiguous(RankedTensorType type) {
  TensorLayout layout = getTensorLayout(type);
  int64_t expected = 1;
  for (size_t i = type.getRank(); i-- > 0;) {
    int64_t size = type.getDimSize(i);
    if (size == 0)
      return true;
    if (size != 1 && layout.strides[i] != expected)
      return false;
    expected *= size;
  }
  return true;
}

int64_t fsdp::getElementBytes(Type element) {
  if (auto complex = dyn_cast<ComplexType>(element))
    return 2 * getElementBytes(complex.getElementType());
  return std::max<int64_t>(element.getIntOrFloatBitWidth() / 8, 1);
}

bool fsdp::overlapsItself(RankedTensorType type) {
  SmallVector<std::pair<int64_t, int64_t>> dimensions; // stride and size, by stride
  for (auto [size, stride] : llvm::zip_equal(type.getShape(), getTensorLayout(type).strides)) {
    if (size == 0)
      return false;
    if (size > 1)
      dimensions.push_back({stride, size});
  }
  llvm::sort(dimensions);
  int64_t last = 0; // of the elements of the dimensions so far
  for (auto [stride, size] : dimensions) {
    if (stride <= last)
      return true;
    int64_t span;
    if (llvm::MulOverflow(size - 1, stride, span) || llvm::AddOverflow(last, span, last))
      return false; // too large for any arena, which others say
  }
  return false;
}

int64_t fsdp::getStorageBytes(RankedTensorType type) {
  TensorLayout layout = getTensorLayout(type);
  int64_t last = layout.offset;
  for (auto [size, stride] : llvm::zip_equal(type.getShape(), layout.strides)) {
    if (size == 0)
      return 0;
    last += (size - 1) * stride;
  }
  return (last + 1) * getElementBytes(type.getElementType());
}
