//===- MappedMemory.cpp - Pages of memory, private or shared --------------===//

#include "comm/MappedMemory.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

using namespace fsdp::rt;

// A huge page needs one entry of the address translation cache where 512 ordinary pages need one
// each. All advice here is a wish: nothing depends on it.
static constexpr size_t kHugePageBytes = size_t(2) << 20;

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 // Linux 6.1
#endif

/// Maps `bytes` at an address where a huge page may begin, if there is room for one. MAP_FAILED, as
/// mmap.
static void *mapAligned(size_t bytes, int flags, int file) {
  if (bytes < kHugePageBytes)
    return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  size_t reservedBytes = bytes + kHugePageBytes;
  void *reserved =
      mmap(nullptr, reservedBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED)
    return MAP_FAILED;
  auto begin = reinterpret_cast<uintptr_t>(reserved);
  uintptr_t aligned = (begin + kHugePageBytes - 1) & ~(kHugePageBytes - 1);
  void *mapped = mmap(reinterpret_cast<void *>(aligned), bytes, PROT_READ | PROT_WRITE,
                      flags | MAP_FIXED, file, 0);
  if (mapped == MAP_FAILED) {
    int error = errno;
    munmap(reserved, reservedBytes);
    errno = error;
    return MAP_FAILED;
  }
  // Give back what is around the mapping, in whole pages.
  auto pageBytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  uintptr_t end = (aligned + bytes + pageBytes - 1) & ~(pageBytes - 1);
  if (aligned > begin)
    munmap(reserved, aligned - begin);
  if (end < begin + reservedBytes)
    munmap(reinterpret_cast<void *>(end), begin + reservedBytes - end);
  return mapped;
}

static Status systemError(const std::string &what) {
  return Status::error(what + ": " + std::strerror(errno));
}

FileDescriptor::~FileDescriptor() {
  if (valid())
    close(number);
}

MappedMemory::~MappedMemory() {
  if (address)
    munmap(address, length);
}

Result<MappedMemory> MappedMemory::anonymous(size_t bytes) {
  void *address = mapAligned(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  if (address == MAP_FAILED)
    return systemError("cannot get " + std::to_string(bytes) + " bytes of memory");
  if (bytes >= kHugePageBytes)
    madvise(address, bytes, MADV_HUGEPAGE);
  return MappedMemory(static_cast<std::byte *>(address), bytes);
}

Result<MappedMemory> MappedMemory::shared(const FileDescriptor &file, size_t bytes) {
  void *address = mapAligned(bytes, MAP_SHARED, file.get());
  if (address == MAP_FAILED)
    return systemError("cannot map " + std::to_string(bytes) + " bytes of shared memory");
  return MappedMemory(static_cast<std::byte *>(address), bytes);
}

void MappedMemory::makeHuge() const {
  size_t whole = length / kHugePageBytes * kHugePageBytes;
  // There must be something to collapse.
  for (size_t offset = 0; offset < whole; offset += kHugePageBytes)
    *reinterpret_cast<volatile std::byte *>(address + offset) = std::byte(0);
  if (whole)
    madvise(address, whole, MADV_COLLAPSE);
}

Result<FileDescriptor> fsdp::rt::createMemoryFile(const char *purpose, size_t bytes) {
  FileDescriptor file(memfd_create(purpose, MFD_CLOEXEC));
  if (!file.valid())
    return systemError("cannot create shared memory");
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    return systemError("cannot get " + std::to_string(bytes) + " bytes of shared memory");
  return file;
}

Result<FileDescriptor> fsdp::rt::openFileOfProcess(int pid, int file) {
  std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(file);
  FileDescriptor opened(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!opened.valid())
    return systemError("cannot open the shared memory of process " + std::to_string(pid) + " (" +
                       path + ")");
  return opened;
}
