#include "checkpoint/Rectangle.h"
#include "TinyPlan.h"
#include "checkpoint/CheckpointFiles.h"
#include "checkpoint/Crc32c.h"
#include "plan/PlanView.h"

#include <gtest/gtest.h>

#include <algorithm>
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

// Runs of any two rectangles: what both hold, ascending, and where it is in each.
TEST(Rectangle, RunsAreWhatBothHold) {
  auto rectanglesOf = [](const Shape &shape) {
    std::vector<Rectangle> all = {{Shape(shape.size()), Shape(shape.size())}};
    for (size_t d = 0; d < shape.size(); ++d) {
      std::vector<Rectangle> more;
      for (const Rectangle &outer : all)
        for (int64_t begin = 0; begin < shape[d]; ++begin)
          for (int64_t size = 1; begin + size <= shape[d]; ++size) {
            more.push_back(outer);
            more.back().offsets[d] = begin;
            more.back().sizes[d] = size;
          }
      all = std::move(more);
    }
    return all;
  };
  for (const Shape &shape : {Shape{4, 5}, Shape{3, 2, 3}, Shape{5}, Shape{}}) {
    const std::vector<Rectangle> rectangles = rectanglesOf(shape);
    for (const Rectangle &first : rectangles)
      for (const Rectangle &second : rectangles) {
        std::vector<int64_t> own = positions(shape, first), part = positions(shape, second);
        std::vector<int64_t> expected, found;
        std::ranges::set_intersection(own, part, std::back_inserter(expected));
        size_t runs = 0, needed = 0;
        forEachRun(first, second, [&](const ElementRun &run) {
          ++runs;
          for (int64_t i = 0; i < run.count; ++i) {
            found.push_back(own[static_cast<size_t>(run.own + i)]);
            EXPECT_EQ(part[static_cast<size_t>(run.part + i)], found.back());
          }
        });
        EXPECT_EQ(found, expected);
        // A run ends where the next common element is not the next one in both.
        auto indexIn = [](const std::vector<int64_t> &all, int64_t position) {
          return std::ranges::lower_bound(all, position) - all.begin();
        };
        for (size_t i = 0; i < expected.size(); ++i)
          needed += i == 0 || indexIn(own, expected[i]) != indexIn(own, expected[i - 1]) + 1 ||
                    indexIn(part, expected[i]) != indexIn(part, expected[i - 1]) + 1;
        EXPECT_EQ(runs, needed);
      }
  }
}

// What a rank has of a parameter that is cut on dimension 1 is one rectangle, of one file.
TEST(Rectangle, ColumnsAreOne) {
  fsdp::test::TinyPlan tiny(3, fsdp::plan::Layout::PerParam, true);
  ASSERT_TRUE(validatePlan(tiny.tables()).ok()) << validatePlan(tiny.tables()).message();
  for (unsigned rank = 0; rank < 3; ++rank) {
    std::vector<StoredFile> files = filesOf(PlanView(tiny.tables()), rank);
    ASSERT_EQ(files.size(), 1u);
    auto part = std::ranges::find(files[0], "l.w", &StoredPart::name);
    EXPECT_EQ(part->part, (Rectangle{{0, rank}, {5, 1}}));
  }
}

// Whole rows of both are one run, however many they are.
TEST(Rectangle, WholeRowsAreOneRun) {
  int runs = 0;
  forEachRun({{10, 0}, {900, 50}}, {{0, 0}, {1000, 50}}, [&](const ElementRun &run) {
    ++runs;
    EXPECT_EQ(run.own, 0);
    EXPECT_EQ(run.part, 500);
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
