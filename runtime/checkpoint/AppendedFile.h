//===- AppendedFile.h - A file written from begin to end ---------*- C++ -*-===//

#ifndef FSDP_RUNTIME_APPENDEDFILE_H
#define FSDP_RUNTIME_APPENDEDFILE_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fsdp::rt {

/// Functions that return bool return false on failure and set errno.
///
/// Whole blocks that are aligned in the file and in memory bypass the page cache (O_DIRECT) if the
/// file system supports that: this saves a copy, and does not evict other data from the cache.
class AppendedFile {
public:
  static constexpr size_t kBlockBytes = 4096;

  AppendedFile() = default;
  ~AppendedFile();
  AppendedFile(const AppendedFile &) = delete;

  bool isOpen() const { return descriptor >= 0; }
  /// Creates a file that must not exist yet.
  bool open(const std::string &path);
  bool append(std::span<const std::byte> bytes);
  /// Makes the appended bytes durable.
  bool sync();
  /// Makes the file durable with its size and times, and closes it even on failure.
  bool close();

private:
  bool isWholeBlocks(std::span<const std::byte> bytes) const;
  void setDirect(bool direct);

  int descriptor = -1;
  int64_t size = 0;
  bool isDirect = false, canBeDirect = true;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_APPENDEDFILE_H
