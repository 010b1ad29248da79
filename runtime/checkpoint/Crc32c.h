//===- Crc32c.h - A checksum of bytes ----------------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_CRC32C_H
#define FSDP_RUNTIME_CRC32C_H

#include <cstddef>
#include <cstdint>
#include <span>

namespace fsdp::rt {

/// Extends a CRC-32C (Castagnoli, RFC 3720): the checksum of the bytes of `checksum` followed by
/// `bytes`. The checksum of no bytes is 0.
uint32_t crc32c(uint32_t checksum, std::span<const std::byte> bytes);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CRC32C_H
