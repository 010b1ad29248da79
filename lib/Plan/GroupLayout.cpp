//===- GroupLayout.cpp - Layout of a group's parameters -------------------===//

#include "fsdp/Plan/GroupLayout.h"

#include <algorithm>
#include <functional>
#include <numeric>

using namespace fsdp::plan;

static int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

static int64_t countElements(std::span<const int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

static GroupLayout layOutFlat(std::span<const std::vector<int64_t>> shapes, unsigned ranks,
                              int64_t alignmentElements) {
  GroupLayout layout{.layout = Layout::Flat, .ranks = ranks};
  int64_t end = 0;
  for (const std::vector<int64_t> &shape : shapes) {
    layout.parameters.push_back({.offset = end});
    end = roundUp(end + countElements(shape), alignmentElements);
  }
  int64_t total = roundUp(end, ranks * alignmentElements);
  layout.shardElements = total / ranks;
  if (total == 0)
    return layout;
  for (size_t i = 0; i < shapes.size(); ++i) {
    ParameterPlace &place = layout.parameters[i];
    int64_t last = place.offset + countElements(shapes[i]);
    for (int64_t at = place.offset; at < last;) {
      int64_t rank = at / layout.shardElements;
      int64_t next = std::min(last, (rank + 1) * layout.shardElements);
      place.pieces.push_back({.rank = static_cast<unsigned>(rank),
                              .first = at - place.offset,
                              .count = next - at,
                              .shardOffset = at - rank * layout.shardElements});
      at = next;
    }
  }
  return layout;
}

static GroupLayout layOutPerParam(std::span<const std::vector<int64_t>> shapes, unsigned ranks,
                                  std::span<const int64_t> shardDims) {
  GroupLayout layout{.layout = Layout::PerParam, .ranks = ranks};
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::vector<int64_t> shape = shapes[i].empty() ? std::vector<int64_t>{1} : shapes[i];
    const auto dim = static_cast<size_t>(shardDims.empty() ? 0 : shardDims[i]);
    const int64_t runs = countElements(std::span(shape).first(dim)), rows = shape[dim];
    const int64_t rowElements = countElements(std::span(shape).subspan(dim + 1));
    const int64_t chunkRows = (rows + ranks - 1) / ranks;
    ParameterPlace place{.offset = layout.shardElements,
                         .chunkElements = runs * chunkRows * rowElements,
                         .runs = runs,
                         .runStride = rows * rowElements};
    for (unsigned rank = 0; rank < ranks; ++rank) {
      int64_t first = std::min(rows, rank * chunkRows);
      int64_t last = std::min(rows, first + chunkRows);
      if (int64_t count = runs * (last - first) * rowElements; count != 0)
        place.pieces.push_back({.rank = rank,
                                .first = first * rowElements,
                                .count = count,
                                .shardOffset = place.offset});
    }
    layout.shardElements += place.chunkElements;
    layout.parameters.push_back(std::move(place));
  }
  return layout;
}

GroupLayout fsdp::plan::layOutGroup(Layout layout, std::span<const std::vector<int64_t>> shapes,
                                    unsigned ranks, int64_t alignmentElements,
                                    std::span<const int64_t> shardDims) {
  if (layout == Layout::Flat)
    return layOutFlat(shapes, ranks, alignmentElements);
  return layOutPerParam(shapes, ranks, shardDims);
}

GroupLayout fsdp::plan::mergeRanks(const GroupLayout &layout, unsigned ranks) {
  const int64_t merged = layout.ranks / ranks;
  const bool isFlat = layout.layout == Layout::Flat;
  GroupLayout larger{
      .layout = layout.layout, .ranks = ranks, .shardElements = layout.shardElements * merged};
  for (const ParameterPlace &place : layout.parameters) {
    ParameterPlace &own = larger.parameters.emplace_back();
    own.offset = isFlat ? place.offset : place.offset * merged;
    own.chunkElements = place.chunkElements * merged;
    own.runs = place.runs;
    own.runStride = place.runStride;
    for (const Piece &piece : place.pieces) {
      unsigned rank = piece.rank / merged;
      if (!own.pieces.empty() && own.pieces.back().rank == rank) {
        // Each run of the parameter's elements continues that of the previous piece.
        own.pieces.back().count += piece.count;
        continue;
      }
      int64_t begin =
          isFlat ? piece.rank % merged * layout.shardElements + piece.shardOffset : own.offset;
      own.pieces.push_back(
          {.rank = rank, .first = piece.first, .count = piece.count, .shardOffset = begin});
    }
  }
  return larger;
}
