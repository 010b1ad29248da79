//===- Rectangle.cpp - Parts of tensors -----------------------------------===//

#include "checkpoint/Rectangle.h"

#include <algorithm>

using namespace fsdp::rt;

static int64_t product(std::span<const int64_t> sizes) {
  int64_t elements = 1;
  for (int64_t size : sizes)
    elements *= size;
  return elements;
}

int64_t Rectangle::elements() const { return product(sizes); }

std::vector<Rectangle> fsdp::rt::cutRange(std::span<const int64_t> shape, int64_t first,
                                          int64_t count) {
  std::vector<Rectangle> rectangles;
  const int64_t end = first + count;
  while (first < end) {
    // The outermost dimension with a whole entry that begins here and fits.
    size_t dimension = 0;
    auto entryElements = [&] { return product(shape.subspan(dimension + 1)); };
    while (dimension + 1 < shape.size() &&
           (first % entryElements() != 0 || end - first < entryElements()))
      ++dimension;

    Rectangle rectangle{std::vector<int64_t>(shape.size(), 0), {shape.begin(), shape.end()}};
    int64_t elements = 1;
    if (!shape.empty()) {
      int64_t position = first / entryElements();
      int64_t index = dimension == 0 ? position : position % shape[dimension];
      int64_t entries = std::min((end - first) / entryElements(), shape[dimension] - index);
      elements = entries * entryElements();
      rectangle.offsets[dimension] = index;
      rectangle.sizes[dimension] = entries;
      for (size_t outer = dimension; outer-- > 0;) {
        position /= shape[outer + 1];
        rectangle.offsets[outer] = outer == 0 ? position : position % shape[outer];
        rectangle.sizes[outer] = 1;
      }
    }
    rectangles.push_back(std::move(rectangle));
    first += elements;
  }
  return rectangles;
}

void fsdp::rt::forEachRun(const Rectangle &own, const Rectangle &part,
                          const std::function<void(const ElementRun &)> &use) {
  const size_t dims = own.sizes.size();
  Rectangle common = own;
  for (size_t i = 0; i < dims; ++i) {
    common.offsets[i] = std::max(own.offsets[i], part.offsets[i]);
    const int64_t end = std::min(own.offsets[i] + own.sizes[i], part.offsets[i] + part.sizes[i]);
    common.sizes[i] = std::max<int64_t>(end - common.offsets[i], 0);
  }
  if (common.elements() == 0)
    return;
  // Dimensions from `inner` on form one run: all inner dimensions are whole in both rectangles.
  size_t inner = dims;
  while (inner > 0 && (inner == dims || (common.sizes[inner] == own.sizes[inner] &&
                                         common.sizes[inner] == part.sizes[inner])))
    --inner;
  const int64_t length = product(std::span(common.sizes).subspan(inner));
  std::vector<int64_t> index(inner, 0); // within the common rectangle
  auto positionIn = [&](const Rectangle &rectangle) {
    int64_t position = 0;
    for (size_t i = 0; i < dims; ++i)
      position = position * rectangle.sizes[i] + common.offsets[i] - rectangle.offsets[i] +
                 (i < inner ? index[i] : 0);
    return position;
  };
  for (int64_t done = 0; done < common.elements(); done += length) {
    use({positionIn(own), positionIn(part), length});
    for (size_t i = inner; i-- > 0;) {
      if (++index[i] < common.sizes[i])
        break;
      index[i] = 0;
    }
  }
}
