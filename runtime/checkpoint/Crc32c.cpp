//===- Crc32c.cpp - A checksum of bytes -----------------------------------===//

#include "checkpoint/Crc32c.h"

#include <array>
#include <cstring>

using namespace fsdp::rt;

static constexpr std::array<uint32_t, 256> makeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit)
      value = value & 1 ? value >> 1 ^ 0x82f63b78 : value >> 1;
    table[i] = value;
  }
  return table;
}

static uint32_t byTable(uint32_t state, std::span<const std::byte> bytes) {
  static constexpr std::array<uint32_t, 256> kTable = makeTable();
  for (std::byte next : bytes)
    state = kTable[(state ^ static_cast<uint32_t>(next)) & 0xff] ^ state >> 8;
  return state;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t byInstruction(uint32_t state,
                                                                std::span<const std::byte> bytes) {
  uint64_t wide = state;
  for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
    uint64_t next = 0;
    std::memcpy(&next, bytes.data(), sizeof(next));
    wide = __builtin_ia32_crc32di(wide, next);
  }
  return byTable(static_cast<uint32_t>(wide), bytes);
}
#endif

uint32_t fsdp::rt::crc32c(uint32_t checksum, std::span<const std::byte> bytes) {
#ifdef __x86_64__
  static const bool hasInstruction = __builtin_cpu_supports("sse4.2");
  if (hasInstruction)
    return ~byInstruction(~checksum, bytes);
#endif
  return ~byTable(~checksum, bytes);
}
