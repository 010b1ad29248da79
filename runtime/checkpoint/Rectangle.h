//===- Rectangle.h - Parts of tensors ----------------------------*- C++ -*-===//
//
// A checkpoint stores tensors in rectangles: `sizes` elements in each dimension from `offsets` on,
// in row-major order. A rank's part of a parameter is one rectangle or, in the flat layout, a range
// of elements, which may begin and end inside a row: up to 2 * dimensions - 1 rectangles.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_RECTANGLE_H
#define FSDP_RUNTIME_RECTANGLE_H

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace fsdp::rt {

struct Rectangle {
  std::vector<int64_t> offsets, sizes;

  /// The number of elements; 1 without dimensions.
  int64_t elements() const;
  bool operator==(const Rectangle &) const = default;
};

/// Cuts elements [first, first + count) of a tensor of that shape, flattened in row-major order,
/// into as few rectangles as possible whose elements are consecutive, in their order.
std::vector<Rectangle> cutRange(std::span<const int64_t> shape, int64_t first, int64_t count);

/// `count` elements of a tensor that are consecutive in two of its rectangles: from element `own`
/// of the one and from element `part` of the other.
struct ElementRun {
  int64_t own, part, count;
};

/// The elements that two rectangles of one tensor have in common: as few runs as possible,
/// ascending.
void forEachRun(const Rectangle &own, const Rectangle &part,
                const std::function<void(const ElementRun &)> &use);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_RECTANGLE_H
