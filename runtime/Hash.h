//===- Hash.h - FNV-1a -------------------------------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_HASH_H
#define FSDP_RUNTIME_HASH_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace fsdp::rt {

/// FNV-1a (Fowler, Noll, Vo) of 64 bits. It does not depend on the standard library, so ranks can
/// compare it and checkpoints can store it.
class Hash {
public:
  void addBytes(const void *data, size_t bytes) {
    const auto *next = static_cast<const unsigned char *>(data);
    for (size_t i = 0; i < bytes; ++i)
      state = (state ^ next[i]) * 0x100000001b3;
  }
  /// Adds the eight bytes of `number`, the lowest first.
  void add(uint64_t number) {
    for (unsigned byte = 0; byte < 8; ++byte) {
      const auto lowest = static_cast<unsigned char>(number >> (8 * byte));
      addBytes(&lowest, 1);
    }
  }
  /// Adds the text and a zero byte, so that "ab", "c" and "a", "bc" differ.
  void add(std::string_view text) {
    addBytes(text.data(), text.size());
    addBytes("", 1);
  }
  /// Adds the bytes of a table's rows in memory.
  template <typename T> void addRows(std::span<const T> rows) {
    addBytes(rows.data(), rows.size_bytes());
  }
  uint64_t value() const { return state; }

private:
  uint64_t state = 0xcbf29ce484222325;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_HASH_H
