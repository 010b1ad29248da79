//===- AppendBytes.h - Writes to an open file --------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_APPENDBYTES_H
#define FSDP_RUNTIME_APPENDBYTES_H

#include <cerrno>
#include <string_view>
#include <unistd.h>

namespace fsdp::rt {

/// Writes all of `bytes` at the file's position. False on failure, with errno set.
inline bool appendBytes(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR)
      return false;
    bytes.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
  }
  return true;
}

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_APPENDBYTES_H
