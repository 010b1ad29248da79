//===- Room.h - Bytes that fit under a cap at each operation ----*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_ROOM_H
#define FSDP_LIB_SCHEDULE_ROOM_H

#include <algorithm>
#include <cstdint>
#include <vector>

namespace fsdp::schedule {

/// The live bytes at each operation, under a cap. Operations are grouped in blocks, so that
/// intervals of thousands of operations, which gathers ahead of their uses need, are handled fast.
class Room {
public:
  void reset(std::vector<int64_t> bytesByOperation, int64_t capBytes) {
    bytes = std::move(bytesByOperation);
    cap = capBytes;
    blocks.resize((bytes.size() + kBlock - 1) / kBlock);
    for (uint32_t block = 0; block < blocks.size(); ++block)
      blocks[block] = {findMost(block), 0};
  }

  void take(uint32_t first, uint32_t end, int64_t amount) {
    while (first < end) {
      uint32_t block = first / kBlock, next = std::min(end, (block + 1) * kBlock);
      if (next - first == kBlock) {
        blocks[block].taken += amount;
        blocks[block].most += amount;
      } else {
        for (uint32_t i = first; i < next; ++i)
          bytes[i] += amount;
        blocks[block].most = findMost(block) + blocks[block].taken;
      }
      first = next;
    }
  }

  /// The position after the last operation in [first, end) that has no room for `amount`;
  /// `first` if all of them have.
  uint32_t findBehindObstacle(uint32_t first, uint32_t end, int64_t amount) const {
    while (first < end) {
      uint32_t block = (end - 1) / kBlock, begin = std::max(first, block * kBlock);
      if (blocks[block].most + amount > cap)
        for (uint32_t i = end; i-- > begin;)
          if (bytes[i] + blocks[block].taken + amount > cap)
            return i + 1;
      end = begin;
    }
    return first;
  }

private:
  static constexpr uint32_t kBlock = 64;
  struct Block {
    int64_t most;  // bytes, over its operations
    int64_t taken; // at each of its operations
  };

  int64_t findMost(uint32_t block) const {
    auto begin = bytes.begin() + block * kBlock;
    size_t size = std::min<size_t>(kBlock, bytes.size() - block * kBlock);
    return *std::max_element(begin, begin + size);
  }

  int64_t cap = 0;
  std::vector<int64_t> bytes; // without Block::taken
  std::vector<Block> blocks;
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_ROOM_H
