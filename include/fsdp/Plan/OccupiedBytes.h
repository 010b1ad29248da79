//===- OccupiedBytes.h - Which bytes of an arena are in use ------*- C++ -*-===//
//
// Follows a program from beginning to end. Standard library only.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_OCCUPIEDBYTES_H
#define FSDP_PLAN_OCCUPIEDBYTES_H

#include <cstdint>
#include <map>
#include <optional>

namespace fsdp::plan {

class OccupiedBytes {
public:
  struct Block {
    int64_t begin, bytes;
    int64_t owner; // the caller's identifier
  };

  /// Occupies the block's bytes (more than 0) up to and including position `last`. If some of them
  /// are occupied, returns a block that occupies them and changes nothing.
  std::optional<Block> enter(Block block, int64_t last);

  /// Moves on to `position` and frees blocks whose last position is before it.
  void advance(int64_t position);

private:
  std::map<int64_t, Block> live; // by begin; disjoint
  std::multimap<int64_t, int64_t> beginByLast;
};

} // namespace fsdp::plan

#endif // FSDP_PLAN_OCCUPIEDBYTES_H
