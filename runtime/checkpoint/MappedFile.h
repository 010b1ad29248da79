//===- MappedFile.h - A file's bytes in memory, read only --------*- C++ -*-===//

#ifndef FSDP_RUNTIME_MAPPEDFILE_H
#define FSDP_RUNTIME_MAPPEDFILE_H

#include "Status.h"

#include <cstddef>
#include <span>
#include <string>

namespace fsdp::rt {

/// A regular file mapped read-only and unmapped at the end. Move-only. Replacing it by rename is
/// harmless. Another process may shorten it at any time, after which touching the removed bytes
/// kills the process (SIGBUS). So all reads but those directly after open() go through read().
class MappedFile {
public:
  /// Errors name the path and the reason. An empty file is valid and has no bytes. Anything but a
  /// regular file is refused without blocking, for example for a FIFO's writer.
  static Result<MappedFile> open(const std::string &path);

  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data, sizeBytes}; }
  /// Copies `part` of bytes() to `to`. An error names the file, and both lengths if it has become
  /// shorter.
  Status read(std::span<const std::byte> part, std::byte *to) const;

private:
  std::string path;
  int descriptor = -1;
  const std::byte *data = nullptr;
  size_t sizeBytes = 0;
};

/// Asks the kernel to read these mapped bytes soon; does not block.
void willNeed(std::span<const std::byte> bytes);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_MAPPEDFILE_H
