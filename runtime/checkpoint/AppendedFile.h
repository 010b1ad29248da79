//===- AppendedFile.h - A file written from begin to end ---------*- C++ -*-===//

#ifndef FSDP_RUNTIME_APPENDEDFILE_H
#define FSDP_RUNTIME_APPENDEDFILE_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fsdp::rt {

/// Where functions return bool, false says that they failed, and errno why.
///
/// Whole blocks that begin at a block, in the file and in memory, bypass the page cache if the file
/// system can do that: a copy less, and what the cache holds for others stays there.
class AppendedFile {
public:
  static constexpr size_t kBlockBytes = 4096;

  AppendedFile() = default;
  ~AppendedFile();
  AppendedFile(const AppendedFile &) = delete;

  bool isOpen() const { return descriptor >= 0; }
  /// Of a file that does not exist yet.
  bool open(const std::string &path);
  bool append(std::span<const std::byte> bytes);
  /// What has been appended is durable.
  bool sync();
  /// The file is durable, too, with its size and times. Closed in any case.
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
