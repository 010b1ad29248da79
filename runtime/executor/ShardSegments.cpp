//===- ShardSegments.cpp - Parts of a shard by optimizer ------------------===//

#include "executor/ShardSegments.h"
#include "DType.h"

#include <algorithm>

using namespace fsdp::rt;

ShardBuffers fsdp::rt::sliceOf(const ShardBuffers &shard, int64_t first, int64_t count) {
  auto from = [&](auto *base, fsdp_dtype dtype) {
    return base ? base + first * static_cast<int64_t>(elementBytes(dtype)) : base;
  };
  ShardBuffers slice = shard;
  slice.elements = count;
  slice.parameters = from(shard.parameters, shard.dtype);
  slice.gradients = from(shard.gradients, shard.gradientDtype);
  for (unsigned i = 0; i < FSDP_MAX_STATES; ++i)
    slice.state[i] = from(shard.state[i], shard.stateDtype[i]);
  slice.average = from(shard.average, shard.averageDtype);
  slice.gathered = from(shard.gathered, shard.gatheredDtype);
  slice.pieces.clear();
  return slice;
}

std::vector<ShardSegment> fsdp::rt::splitByOptimizer(const ShardBuffers &shard) {
  std::vector<ShardPiece> pieces = shard.pieces;
  std::ranges::sort(pieces, {}, &ShardPiece::first);
  std::erase_if(pieces, [](const ShardPiece &piece) { return piece.count == 0; });
  std::vector<ShardSegment> segments;
  for (size_t i = 0; i < pieces.size();) {
    size_t end = i + 1;
    while (end < pieces.size() && pieces[end].optimizer == pieces[i].optimizer)
      ++end;
    const int64_t first = i == 0 ? 0 : pieces[i].first;
    const int64_t last = end == pieces.size() ? shard.elements : pieces[end].first;
    ShardSegment &segment =
        segments.emplace_back(pieces[i].optimizer, sliceOf(shard, first, last - first));
    for (; i < end; ++i)
      segment.shard.pieces.push_back({pieces[i].first - first, pieces[i].count, 0});
  }
  if (segments.empty())
    segments.push_back({0, shard});
  return segments;
}
