//===- Crc32c.h - A checksum of bytes ----------------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_CRC32C_H
#define FSDP_RUNTIME_CRC32C_H

#include <cstddef>
#include <cstdint>
#include <span>

namespace fsdp::rt {

/// CRC-32C (Castagnoli, RFC 3720) of the bytes that `checksum` is of, and then `bytes`; of nothing
/// it is 0.
uint32_t crc32c(uint32_t checksum, std::span<const std::byte> bytes);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CRC32C_H
