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

/// A buffer that is live at positions first, ..., last of the program, both included.
struct BufferRange {
  int64_t sizeBytes;
  int64_t first, last;
};

struct ArenaPlan {
  std::vector<int64_t> offsets; // one per buffer
  int64_t arenaBytes = 0;
  /// The largest sum of (aligned) sizes live at one position: no plan needs less.
  int64_t peakLiveBytes = 0;
};

/// Places the buffers so that no two that are live at the same position overlap. Deterministic.
ArenaPlan planArena(std::span<const BufferRange> buffers);

/// The first pair of buffers that overlap in time and in place, as indices; {-1, -1} if none.
/// Independent of `planArena`: a sweep over the program with the occupied bytes in order.
struct Overlap {
  int64_t first = -1, second = -1;
};
Overlap findOverlap(std::span<const BufferRange> buffers, std::span<const int64_t> offsets);

} // namespace fsdp::plan

#endif // FSDP_PLAN_ARENAPLANNER_H
