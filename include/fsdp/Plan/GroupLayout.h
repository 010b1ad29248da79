//===- GroupLayout.h - Layout of a group's parameters -----------*- C++ -*-===//
//
// Pure arithmetic, standard library only. All sizes are elements of the group's dtype.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_GROUPLAYOUT_H
#define FSDP_PLAN_GROUPLAYOUT_H

#include <cstdint>
#include <span>
#include <vector>

namespace fsdp::plan {

enum class Layout { Flat, PerParam };

/// Elements [first, first + count) of a flattened parameter, at `shardOffset` of a rank's shard. If
/// ParameterPlace::runs is above 1, the first run begins at `first`, and `count` is the sum of all
/// runs.
struct Piece {
  unsigned rank;
  int64_t first, count, shardOffset;
};

/// The elements of one parameter in the group and in the shards.
struct ParameterPlace {
  /// Flat: the parameter begins at this element of the gathered group. PerParam: its padded chunk
  /// begins at this element of every rank's shard.
  int64_t offset = 0;
  /// PerParam: padded elements per rank (ceil(size / ranks) of the sharded dimension); Flat: 0.
  int64_t chunkElements = 0;
  /// PerParam: the number of runs of consecutive elements in each piece, and their distance in the
  /// parameter. In the shard the runs are adjacent.
  int64_t runs = 1, runStride = 0;
  std::vector<Piece> pieces = {}; // at most one per rank, by rank
};

struct GroupLayout {
  Layout layout = Layout::Flat;
  unsigned ranks = 1;
  int64_t shardElements = 0; // per rank, padding included
  std::vector<ParameterPlace> parameters = {};

  int64_t gatheredElements() const { return shardElements * ranks; }
};

/// Lays out parameters of the given shapes over `ranks`.
///
/// Flat: one after another, each at a multiple of `alignmentElements` (64 bytes' worth). The total
/// is a multiple of ranks * alignmentElements and is cut into `ranks` equal parts.
///
/// PerParam: torch.chunk on one dimension of each parameter, padded to ceil(size / ranks) on every
/// rank, as FSDP2 does; no alignment. `shardDims` has this dimension for each parameter (empty: all
/// are 0). The size of a dimension other than 0 must be divisible by `ranks`. A scalar (no
/// dimension) counts as one row.
GroupLayout layOutGroup(Layout layout, std::span<const std::vector<int64_t>> shapes, unsigned ranks,
                        int64_t alignmentElements, std::span<const int64_t> shardDims = {});

/// The same group in larger shards, over `ranks` ranks, a divisor of the layout's. Each rank holds
/// the shards of consecutive ranks of `layout`, in the flat layout rank by rank, in the per-param
/// layout parameter by parameter. The whole group has the same number of elements.
GroupLayout mergeRanks(const GroupLayout &layout, unsigned ranks);

} // namespace fsdp::plan

#endif // FSDP_PLAN_GROUPLAYOUT_H
