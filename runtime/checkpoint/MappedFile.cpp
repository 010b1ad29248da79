//===- MappedFile.cpp - A file's bytes in memory, read only ---------------===//

#include "checkpoint/MappedFile.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace fsdp::rt;

Result<MappedFile> MappedFile::open(const std::string &path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return Status::error("cannot open '" + path + "': " + std::strerror(errno));
  struct stat information;
  if (::fstat(descriptor, &information) != 0 || !S_ISREG(information.st_mode)) {
    ::close(descriptor);
    return Status::error("cannot read '" + path + "': not a regular file");
  }
  MappedFile file;
  file.sizeBytes = static_cast<size_t>(information.st_size);
  if (file.sizeBytes != 0) {
    void *address = ::mmap(nullptr, file.sizeBytes, PROT_READ, MAP_SHARED, descriptor, 0);
    if (address == MAP_FAILED) {
      std::string reason = std::strerror(errno);
      ::close(descriptor);
      return Status::error("cannot map '" + path + "': " + reason);
    }
    file.data = static_cast<const std::byte *>(address);
  }
  ::close(descriptor);
  return file;
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : data(std::exchange(other.data, nullptr)), sizeBytes(std::exchange(other.sizeBytes, 0)) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(data, other.data);
  std::swap(sizeBytes, other.sizeBytes);
  return *this;
}

MappedFile::~MappedFile() {
  if (data)
    ::munmap(const_cast<std::byte *>(data), sizeBytes);
}

void fsdp::rt::willNeed(std::span<const std::byte> bytes) {
  static const auto pageBytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto begin = reinterpret_cast<uintptr_t>(bytes.data()) & ~(pageBytes - 1);
  auto end = reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size();
  ::madvise(reinterpret_cast<void *>(begin), end - begin, MADV_WILLNEED);
}
