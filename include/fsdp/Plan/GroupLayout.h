//===- GroupLayout.h - Where a group's parameters lie ------------*- C++ -*-===//
//
// Pure arithmetic, standard library only. All figures are elements of the group's dtype.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_GROUPLAYOUT_H
#define FSDP_PLAN_GROUPLAYOUT_H

#include <cstdint>
#include <span>
#include <vector>

namespace fsdp::plan {

enum class Layout { Flat, PerParam };

/// Elements [first, first + count) of a parameter, flattened, at `shardOffset` of a rank's shard;
/// or, where ParameterPlace says more than one run, the first run at `first` and `count` elements
/// in all.
struct Piece {
  unsigned rank;
  int64_t first, count, shardOffset;
};

/// Where one parameter lies.
struct ParameterPlace {
  /// Flat: the parameter begins at this element of the gathered group. PerParam: its padded chunk
  /// begins at this element of every rank's shard.
  int64_t offset = 0;
  /// PerParam: padded elements per rank (ceil(size / ranks) of the dimension that is cut); Flat: 0.
  int64_t chunkElements = 0;
  /// PerParam: how many runs of consecutive elements each piece is, and how far apart they are in
  /// the parameter. They lie one behind the other in the shard.
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
/// Flat: one after another, each beginning at a multiple of `alignmentElements` (64 bytes' worth),
/// the total a multiple of ranks * alignmentElements; cut into `ranks` equal parts.
///
/// PerParam: torch.chunk on one dimension of each parameter, padded to ceil(size / ranks) on every
/// rank, as FSDP2 does; no alignment. `shardDims` are these dimensions, by parameter (empty: all
/// are 0); one that is not 0 has a size that `ranks` divides. A scalar (no dimension) counts as one
/// row.
GroupLayout layOutGroup(Layout layout, std::span<const std::vector<int64_t>> shapes, unsigned ranks,
                        int64_t alignmentElements, std::span<const int64_t> shardDims = {});

/// The same group in larger parts, over `ranks`, which divides the layout's: a rank holds what as
/// many consecutive ranks hold in `layout`, in the flat layout rank by rank, else parameter by
/// parameter. The whole has as many elements.
GroupLayout mergeRanks(const GroupLayout &layout, unsigned ranks);

} // namespace fsdp::plan

#endif // FSDP_PLAN_GROUPLAYOUT_H
