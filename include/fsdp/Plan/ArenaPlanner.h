//===- ArenaPlanner.h - Place buffers with live ranges in one arena -*- C++ -*-===//
//
// Pure arithmetic, standard library only. Sizes and offsets are bytes.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_ARENAPLANNER_H
#define FSDP_PLAN_ARENAPLANNER_H

#include <cstdint>
#include <span>
#include <vector>

namespace fsdp::plan {

/// Every buffer begins at a multiple of this many bytes (a cache line, the widest vector).
inline constexpr int64_t kArenaAlignmentBytes = 64;

/// `bytes`, rounded up to the arena's alignment.
constexpr int64_t alignToArena(int64_t bytes) {
  return (bytes + kArenaAlignmentBytes - 1) / kArenaAlignmentBytes * kArenaAlignmentBytes;
}

/// A buffer that is live at positions first, ..., last of the program, both included.
///
/// Buffers of one bundle keep their distances: each lies `bundleOffset` bytes (a multiple of the
/// alignment) after the bundle's beginning. So the parts of one contiguous buffer can become live
/// one after another, as the gradients of a group do. Parts of a bundle must not overlap.
struct BufferRange {
  int64_t sizeBytes;
  int64_t first, last;
  int64_t bundle = -1; // any number that identifies the bundle; -1: none
  int64_t bundleOffset = 0;
};

struct ArenaPlan {
  std::vector<int64_t> offsets; // one per buffer
  int64_t arenaBytes = 0;
  /// The largest sum of (aligned) sizes live at one position: a lower bound of arenaBytes.
  int64_t peakLiveBytes = 0;
};

/// Places the buffers so that no two that are live at the same position overlap. Deterministic.
ArenaPlan planArena(std::span<const BufferRange> buffers);

/// Fills up an arena of some of the buffers with the others. `known` holds the offsets, by buffer,
/// of that arena, which the plan keeps; -1 for the others, and for all of a bundle or for none.
ArenaPlan fillArena(std::span<const BufferRange> buffers, std::span<const int64_t> known);

/// The first pair of buffers that are live at the same position and share bytes, as indices; {-1,
/// -1} if there is none. Independent of `planArena`: a sweep over positions with an ordered map of
/// occupied bytes.
struct Overlap {
  int64_t first = -1, second = -1;
};
Overlap findOverlap(std::span<const BufferRange> buffers, std::span<const int64_t> offsets);

} // namespace fsdp::plan

#endif // FSDP_PLAN_ARENAPLANNER_H
