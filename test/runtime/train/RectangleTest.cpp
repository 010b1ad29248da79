#include "checkpoint/Rectangle.h"
#include "checkpoint/Crc32c.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

using namespace fsdp::rt;

namespace {

using Shape = std::vector<int64_t>;

int64_t product(const Shape &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

/// The flat positions of a rectangle's elements, in row-major order.
std::vector<int64_t> positions(const Shape &shape, const Rectangle &rectangle) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < product(shape); ++i) {
    bool inside = true;
    int64_t rest = i;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d])
      inside &= rest % shape[d] >= rectangle.offsets[d] &&
                rest % shape[d] < rectangle.offsets[d] + rectangle.sizes[d];
    if (inside)
      result.push_back(i);
  }
  return result;
}

const Shape kShapes[] = {{}, {7}, {4, 5}, {1, 6}, {6, 1}, {3, 2, 4}, {2, 3, 2, 2}};

} // namespace

// Every range of every shape: the rectangles hold its elements, each once and in their order, and
// there are no more of them than ends inside rows make necessary.
TEST(Rectangle, RangesAreCutWithoutGaps) {
  for (const Shape &shape : kShapes)
    for (int64_t first = 0; first < product(shape); ++first)
      for (int64_t count = 0; first + count <= product(shape); ++count) {
        std::vector<int64_t> found, expected(static_cast<size_t>(count));
        std::iota(expected.begin(), expected.end(), first);
        std::vector<Rectangle> rectangles = cutRange(shape, first, count);
        for (const Rectangle &rectangle : rectangles)
          for (int64_t position : positions(shape, rectangle))
            found.push_back(position);
        EXPECT_EQ(found, expected);
        EXPECT_LE(rectangles.size(), shape.empty() ? 1 : 2 * shape.size() - 1);
      }
}

TEST(Rectangle, ARangeInsideTwoRowsIsThree) {
  const Shape shape{4, 5};
  EXPECT_EQ(cutRange(shape, 3, 14),
            (std::vector<Rectangle>{{{0, 3}, {1, 2}}, {{1, 0}, {2, 5}}, {{3, 0}, {1, 2}}}));
  EXPECT_EQ(cutRange(shape, 5, 10), (std::vector<Rectangle>{{{1, 0}, {2, 5}}}));
}

// Runs of any rectangle and any range: what both hold, ascending, and where it is in the rectangle.
TEST(Rectangle, RunsAreWhatBothHold) {
  for (const Shape &shape : {Shape{4, 5}, Shape{3, 2, 4}, Shape{5}})
    for (int64_t corner = 0; corner < product(shape); corner += 3)
      for (int64_t first = 0; first < product(shape); first += 2)
        for (int64_t count = 0; first + count <= product(shape); ++count) {
          Rectangle rectangle{Shape(shape.size()), Shape(shape.size())};
          int64_t rest = corner;
          for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
            rectangle.offsets[d] = rest % shape[d];
            rectangle.sizes[d] = shape[d] - rectangle.offsets[d];
          }
          std::vector<int64_t> held = positions(shape, rectangle), expected, found;
          for (int64_t position : held)
            if (position >= first && position < first + count)
              expected.push_back(position);
          forEachRun(shape, rectangle, first, count, [&](const ElementRun &run) {
            for (int64_t i = 0; i < run.count; ++i) {
              found.push_back(run.whole + i);
              EXPECT_EQ(held[static_cast<size_t>(run.part + i)], run.whole + i);
            }
          });
          EXPECT_EQ(found, expected);
        }
}

// A rectangle of whole rows is one run, however many they are.
TEST(Rectangle, WholeRowsAreOneRun) {
  int runs = 0;
  forEachRun(Shape{1000, 50}, {{10, 0}, {900, 50}}, 0, 50000, [&](const ElementRun &run) {
    ++runs;
    EXPECT_EQ(run.whole, 500);
    EXPECT_EQ(run.count, 45000);
  });
  EXPECT_EQ(runs, 1);
}

// The check value of the algorithm, in one piece and in several.
TEST(Crc32c, KnownValue) {
  auto bytes = [](const char *text) { return std::as_bytes(std::span(text, std::strlen(text))); };
  EXPECT_EQ(crc32c(0, {}), 0u);
  EXPECT_EQ(crc32c(0, bytes("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c(crc32c(0, bytes("1234")), bytes("56789")), 0xe3069283u);
  EXPECT_EQ(crc32c(0, bytes("12345678901234567890123456789012")),
            crc32c(crc32c(0, bytes("12345678901")), bytes("234567890123456789012")));
}
