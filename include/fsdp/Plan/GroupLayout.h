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

/// Elements [first, first + count) of a parameter, flattened, at `shardOffset` of a rank's shard.
struct Piece {
  unsigned rank;
  int64_t first, count, shardOffset;
};

/// Where one parameter lies.
struct ParameterPlace {
  /// Flat: the parameter begins at this element of the gathered group. PerParam: its padded chunk
  /// begins at this element of every rank's shard.
  int64_t offset = 0;
  /// PerParam: padded elements per rank (rows of ceil(dim0 / ranks)); Flat: 0.
  int64_t chunkElements = 0;
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
/// PerParam: torch.chunk on dimension 0, padded to ceil(dim0 / ranks) rows on every rank, as FSDP2
/// does; no alignment. A scalar (no dimension) counts as one row.
GroupLayout layOutGroup(Layout layout, std::span<const std::vector<int64_t>> shapes, unsigned ranks,
                        int64_t alignmentElements);

/// The same group in larger parts, over `ranks`, which divides the layout's: a rank holds what as
/// many consecutive ranks hold in `layout`, in the flat layout rank by rank, else parameter by
/// parameter. The whole has as many elements.
GroupLayout mergeRanks(const GroupLayout &layout, unsigned ranks);

} // namespace fsdp::plan

#endif // FSDP_PLAN_GROUPLAYOUT_H
