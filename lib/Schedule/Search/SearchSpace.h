//===- SearchSpace.h - Facts about a problem for the search -------*- C++ -*-===//

#ifndef FSDP_SCHEDULE_SEARCHSPACE_H
#define FSDP_SCHEDULE_SEARCHSPACE_H

#include "fsdp/Schedule/LowerBound.h"

#include <algorithm>
#include <span>

namespace fsdp::schedule {

/// A buffer that is live on positions [begin, end).
struct Buffer {
  uint32_t begin = 0, end = 0;
  int64_t bytes = 0;
};

/// The problem must outlive the search space.
struct SearchSpace {
  explicit SearchSpace(const Problem &problem);

  const Problem &problem;
  std::vector<int32_t> previousUse; // of the same group; -1: none
  std::vector<double> startNs;      // by position: Problem::reachedNs
  std::vector<uint8_t> alwaysKept;  // by use: whether the problem demands that it is kept
  std::vector<uint32_t> mayKeep;    // uses that may be kept or gathered again
  std::vector<uint32_t> mayChunk;   // uses that may be gathered from some chunk
  uint8_t mostChunks = 0;           // of a group
  /// Positions are cut into segments where uses, gaps between uses, and reductions begin or end.
  std::vector<uint32_t> segmentOf;   // by position
  std::vector<int64_t> segmentBytes; // by segment: the most unavoidable bytes of its operations
  std::vector<uint32_t> events;      // positions at which segments begin, ascending

  int64_t bytesOf(uint32_t use) const { return problem.groupOfUse(use).gatheredBytes; }
  uint32_t firstOf(uint32_t use) const { return problem.uses[use].first; }
  /// The position at which the copy of the previous use is released if it is not kept.
  uint32_t gapBegin(uint32_t use) const { return problem.uses[size_t(previousUse[use])].last + 1; }
  /// The copy that the group's previous use left, if it is kept for this use.
  Buffer keptCopy(uint32_t use) const { return {gapBegin(use), firstOf(use), bytesOf(use)}; }
  /// The chunk of this number (Plan::chunked) from which the use is gathered.
  Buffer chunkOf(uint32_t use, uint8_t number) const {
    const Chunk &chunk = problem.chunkOf(use, number);
    const uint32_t end =
        chunk.isOnHost ? problem.releasedAt(uint32_t(previousUse[use]), number) : firstOf(use) + 1;
    return {gapBegin(use) - 1, end, chunk.bytes};
  }
  /// The position of the `count`-th event after `position`; at most the last event.
  uint32_t eventAfter(uint32_t position, size_t count) const {
    return events[std::min(events.size() - 1, segmentOf[position] + count)];
  }
  /// The last position that computation reaches by `ns` if it never waits.
  uint32_t positionAt(double ns) const;
};

/// The most live bytes in each segment, for a choice of kept copies and chunks.
class MemoryProfile {
public:
  /// `chunked`, by use, may be empty.
  MemoryProfile(const SearchSpace &space, std::span<const uint8_t> kept,
                std::span<const uint8_t> chunked);

  /// Whether the buffer fits the cap as well.
  bool fits(const Buffer &buffer) const;
  void add(const Buffer &buffer);
  bool addIfFits(const Buffer &buffer);

private:
  const SearchSpace &space;
  std::vector<int64_t> bytes; // by segment
};

/// Keeps uses in this order beside those that are always kept, and skips each use that does not fit
/// the cap. Returns flags by use.
std::vector<uint8_t> fitKeeps(const SearchSpace &space, std::span<const uint32_t> order);

/// Gathers uses from chunks in this order, each from its first chunk that fits the cap beside the
/// kept copies. Returns Plan::chunked.
std::vector<uint8_t> fitChunks(const SearchSpace &space, std::span<const uint8_t> kept,
                               std::span<const uint32_t> order);

/// The uses in ascending order of the time since the group's previous use.
std::vector<uint32_t> orderByGap(const SearchSpace &space, std::vector<uint32_t> uses);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_SEARCHSPACE_H
