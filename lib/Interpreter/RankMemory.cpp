//===- RankMemory.cpp - Where one rank's tensors lie ----------------------===//

#include "RankMemory.h"

#include "Arguments.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::interpreter;

static constexpr int kPoison = 0xFF;
/// Operators may depend on the alignment of their operands; torch's own allocations have this one.
static constexpr int64_t kAlignmentBytes = 64;

RankMemory::RankMemory(std::optional<int64_t> arenaBytes) {
  if (!arenaBytes)
    return;
  at::Tensor bytes = at::empty({*arenaBytes + kAlignmentBytes}, at::kByte);
  auto address = reinterpret_cast<uintptr_t>(bytes.data_ptr());
  int64_t skipped = -address % kAlignmentBytes;
  arena = bytes.narrow(0, skipped, *arenaBytes);
  poison(arena);
}

at::Tensor RankMemory::allocate(int64_t elements, Type element,
                                std::optional<int64_t> offset) const {
  at::ScalarType dtype = convertElementType(element);
  int64_t bytes = elements * getElementBytes(element);
  if (!isPlanned() || bytes == 0)
    return at::empty({elements}, dtype);
  if (!offset || *offset < 0 || *offset + bytes > arena.numel())
    throw std::runtime_error(
        (offset ? "arena offset " + std::to_string(*offset) : std::string("no arena offset")) +
        " for " + std::to_string(bytes) + " bytes in an arena of " + std::to_string(arena.numel()) +
        " bytes");
  return at::from_blob(static_cast<char *>(arena.data_ptr()) + *offset, {elements}, dtype);
}

at::Tensor RankMemory::placeFlat(int64_t elements, Type element,
                                 std::optional<int64_t> offset) const {
  return allocate(elements, element, offset);
}

at::Tensor RankMemory::place(RankedTensorType type, std::optional<int64_t> offset) const {
  TensorLayout layout = getTensorLayout(type);
  int64_t elements = getStorageBytes(type) / getElementBytes(type.getElementType());
  return allocate(elements, type.getElementType(), offset)
      .as_strided(type.getShape(), layout.strides, layout.offset);
}

static int64_t countSpannedBytes(const at::Tensor &tensor) {
  if (tensor.numel() == 0)
    return 0;
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i)
    last += (tensor.size(i) - 1) * tensor.stride(i);
  return (last + 1) * static_cast<int64_t>(tensor.element_size());
}

void fsdp::interpreter::poison(const at::Tensor &tensor) {
  if (int64_t bytes = countSpannedBytes(tensor))
    std::memset(tensor.data_ptr(), kPoison, bytes);
}

bool fsdp::interpreter::isPoisoned(const at::Tensor &tensor) {
  const auto *bytes = static_cast<const unsigned char *>(tensor.const_data_ptr());
  return std::all_of(bytes, bytes + tensor.nbytes(), [](unsigned char b) { return b == kPoison; });
}

bool fsdp::interpreter::haveEqualBits(const at::Tensor &a, const at::Tensor &b) {
  return a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}
