//===- MappedMemory.h - Pages of memory, private or shared -------*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_MAPPEDMEMORY_H
#define FSDP_RUNTIME_COMM_MAPPEDMEMORY_H

#include "Status.h"

#include <cstddef>
#include <utility>

namespace fsdp::rt {

/// Owns a file descriptor and closes it at the end; -1: none.
class FileDescriptor {
public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number(number) {}
  FileDescriptor(FileDescriptor &&other) noexcept : number(std::exchange(other.number, -1)) {}
  FileDescriptor &operator=(FileDescriptor &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~FileDescriptor();

  int get() const { return number; }
  bool valid() const { return number >= 0; }
  /// Passes the descriptor's ownership to the caller.
  int release() { return std::exchange(number, -1); }

private:
  int number = -1;
};

/// Zeroed pages, unmapped with this object. A mapping of at least a huge page's size is aligned to
/// huge pages.
class MappedMemory {
public:
  MappedMemory() = default;
  MappedMemory(MappedMemory &&other) noexcept
      : address(std::exchange(other.address, nullptr)), length(std::exchange(other.length, 0)) {}
  MappedMemory &operator=(MappedMemory &&other) noexcept {
    std::swap(address, other.address);
    std::swap(length, other.length);
    return *this;
  }
  ~MappedMemory();

  /// Pages of this process alone, huge ones where the system has them.
  static Result<MappedMemory> anonymous(size_t bytes);
  /// The pages of `file`, which is `bytes` long, shared with all processes that map it.
  static Result<MappedMemory> shared(const FileDescriptor &file, size_t bytes);

  /// Turns shared pages into huge pages, all at once, if the system can. Allowed only while all
  /// bytes are zero.
  void makeHuge() const;

  std::byte *begin() const { return address; }

private:
  MappedMemory(std::byte *address, size_t length) : address(address), length(length) {}

  std::byte *address = nullptr;
  size_t length = 0;
};

/// A file of `bytes` zeroes without a name: it lives as long as a process has it open or mapped, so
/// no file can be left behind. `purpose` appears in /proc/<pid>/maps. Other users cannot open the
/// file. Its size is sealed, so no process can shrink it under a mapping.
Result<FileDescriptor> createMemoryFile(const char *purpose, size_t bytes);

/// Opens the file that process `pid` has open as descriptor `file`. It must be a memory file of
/// this user, made by createMemoryFile() with `bytes` bytes. Errors name the process and the
/// violated condition.
Result<FileDescriptor> openMemoryFile(int pid, int file, size_t bytes);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_MAPPEDMEMORY_H
