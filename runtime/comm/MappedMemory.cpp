//===- MappedMemory.cpp - Pages of memory, private or shared --------------===//

#include "comm/MappedMemory.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fsdp::rt;

// A huge page needs one TLB entry instead of 512. All madvise calls here are hints: nothing depends
// on them.
static constexpr size_t kHugePageBytes = size_t(2) << 20;

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 // Linux 6.1
#endif

/// Maps `bytes` at an address aligned to huge pages, if the mapping is large enough for one.
/// Returns MAP_FAILED on failure, as mmap.
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
  // Unmap the whole pages around the mapping.
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
  // Touch the pages, so that there are pages to collapse.
  for (size_t offset = 0; offset < whole; offset += kHugePageBytes)
    *reinterpret_cast<volatile std::byte *>(address + offset) = std::byte(0);
  if (whole)
    madvise(address, whole, MADV_COLLAPSE);
}

// The seals fix the file's size, since a process that touches a truncated page is killed.
static constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Result<FileDescriptor> fsdp::rt::createMemoryFile(const char *purpose, size_t bytes) {
  FileDescriptor file(memfd_create(purpose, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid())
    return systemError("cannot create shared memory");
  if (fchmod(file.get(), S_IRUSR | S_IWUSR) != 0 ||
      ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, kSeals) != 0)
    return systemError("cannot get " + std::to_string(bytes) + " bytes of shared memory");
  return file;
}

Result<FileDescriptor> fsdp::rt::openMemoryFile(int pid, int file, size_t bytes) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(file);
  const std::string what =
      "the shared memory of process " + std::to_string(pid) + " (" + path + ")";
  // O_NONBLOCK: must not block if the file is not a memory file.
  FileDescriptor opened(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!opened.valid())
    return systemError("cannot open " + what);
  struct stat information = {};
  if (fstat(opened.get(), &information) != 0)
    return systemError("cannot look at " + what);
  if (information.st_uid != geteuid())
    return Status::error(what + " belongs to user " + std::to_string(information.st_uid) +
                         ", this process to user " + std::to_string(geteuid()));
  const int seals = fcntl(opened.get(), F_GET_SEALS);
  if (!S_ISREG(information.st_mode) || seals < 0 || (seals & kSeals) != kSeals)
    return Status::error(what + " is no memory that the run has made: its size is not sealed");
  if (static_cast<uint64_t>(information.st_size) != bytes)
    return Status::error(what + " has " + std::to_string(information.st_size) +
                         " bytes, expected " + std::to_string(bytes));
  return opened;
}
