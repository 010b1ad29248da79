//===- Rectangle.h - Parts of tensors ----------------------------*- C++ -*-===//
//
// A checkpoint stores tensors in rectangles: from `offsets` on, `sizes` elements in each dimension,
// in row-major order. A flat range of elements, which is what a rank holds of a parameter, may
// begin and end inside a row: it is up to 2 * dimensions - 1 rectangles.
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

  /// Of a tensor without dimensions: 1.
  int64_t elements() const;
  bool operator==(const Rectangle &) const = default;
};

/// Cuts elements [first, first + count) of a tensor of that shape, flattened in row-major order,
/// into as few rectangles as possible whose elements are consecutive, in their order.
std::vector<Rectangle> cutRange(std::span<const int64_t> shape, int64_t first, int64_t count);

/// `count` consecutive elements of a tensor from `whole` on; in the rectangle they are consecutive
/// too, from `part` on.
struct ElementRun {
  int64_t whole, part, count;
};

/// The elements that [first, first + count) of a tensor, flattened, and a rectangle of it have in
/// common: as few runs as possible, ascending. The rectangle lies within the shape.
void forEachRun(std::span<const int64_t> shape, const Rectangle &rectangle, int64_t first,
                int64_t count, const std::function<void(const ElementRun &)> &use);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_RECTANGLE_H
