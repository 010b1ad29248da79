//===- MappedFile.h - A file's bytes in memory, read only --------*- C++ -*-===//

#ifndef FSDP_RUNTIME_MAPPEDFILE_H
#define FSDP_RUNTIME_MAPPEDFILE_H

#include "Status.h"

#include <cstddef>
#include <span>
#include <string>

namespace fsdp::rt {

/// A regular file mapped read-only and unmapped at the end. Move-only. A file that another process
/// shortens while it is mapped cannot be read safely; replacing it by rename is harmless.
class MappedFile {
public:
  /// Errors name the path and the reason. An empty file is valid and has no bytes.
  static Result<MappedFile> open(const std::string &path);

  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data, sizeBytes}; }

private:
  const std::byte *data = nullptr;
  size_t sizeBytes = 0;
};

/// Asks the kernel to read these mapped bytes soon; does not block.
void willNeed(std::span<const std::byte> bytes);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_MAPPEDFILE_H
