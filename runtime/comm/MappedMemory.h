//===- MappedMemory.h - Pages of memory, private or shared -------*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_MAPPEDMEMORY_H
#define FSDP_RUNTIME_COMM_MAPPEDMEMORY_H

#include "Status.h"

#include <cstddef>
#include <utility>

namespace fsdp::rt {

/// A file descriptor that is closed with it; -1 is none.
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
  /// The number, whose owner is the caller from now on.
  int release() { return std::exchange(number, -1); }

private:
  int number = -1;
};

/// Zeroed pages; unmapped with this object. What is as large as a huge page begins where one may.
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
  /// The pages of `file`, which is `bytes` long, shared with whoever maps it.
  static Result<MappedMemory> shared(const FileDescriptor &file, size_t bytes);

  /// Makes huge pages of shared ones, all at once, where the system can. Only while nothing but
  /// zeroes was written.
  void makeHuge() const;

  std::byte *begin() const { return address; }

private:
  MappedMemory(std::byte *address, size_t length) : address(address), length(length) {}

  std::byte *address = nullptr;
  size_t length = 0;
};

/// A file of `bytes` zeroes that has no name: it lives as long as a process has it open or mapped,
/// so that nothing can be left behind. `purpose` is for people who look at /proc/<pid>/maps. Other
/// users cannot open it; its size is sealed, so that nobody can take mapped pages away.
Result<FileDescriptor> createMemoryFile(const char *purpose, size_t bytes);

/// Opens what process `pid` has open as `file`: a memory file of this user, made by
/// createMemoryFile() with that many bytes. Errors name the process and what is not so.
Result<FileDescriptor> openMemoryFile(int pid, int file, size_t bytes);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_MAPPEDMEMORY_H
