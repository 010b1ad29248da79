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
  MappedFile file;
  file.path = path;
  file.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor < 0)
    return Status::error("cannot open '" + path + "': " + std::strerror(errno));
  struct stat information;
  if (::fstat(file.descriptor, &information) != 0 || !S_ISREG(information.st_mode))
    return Status::error("cannot read '" + path + "': not a regular file");
  file.sizeBytes = static_cast<size_t>(information.st_size);
  if (file.sizeBytes != 0) {
    void *address = ::mmap(nullptr, file.sizeBytes, PROT_READ, MAP_SHARED, file.descriptor, 0);
    if (address == MAP_FAILED)
      return Status::error("cannot map '" + path + "': " + std::strerror(errno));
    file.data = static_cast<const std::byte *>(address);
  }
  return file;
}

MappedFile::MappedFile(MappedFile &&other) noexcept { *this = std::move(other); }

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(path, other.path);
  std::swap(descriptor, other.descriptor);
  std::swap(data, other.data);
  std::swap(sizeBytes, other.sizeBytes);
  return *this;
}

MappedFile::~MappedFile() {
  if (data)
    ::munmap(const_cast<std::byte *>(data), sizeBytes);
  if (descriptor >= 0)
    ::close(descriptor);
}

Status MappedFile::read(std::span<const std::byte> part, std::byte *to) const {
  auto position = static_cast<off_t>(part.data() - data);
  for (size_t left = part.size(); left != 0;) {
    ssize_t length = ::pread(descriptor, to, left, position);
    if (length < 0 && errno == EINTR)
      continue;
    if (length < 0)
      return Status::error("cannot read '" + path + "': " + std::strerror(errno));
    if (length == 0) {
      struct stat information = {};
      ::fstat(descriptor, &information);
      return Status::error("'" + path + "' was shortened while it was read: it had " +
                           std::to_string(sizeBytes) + " bytes when it was opened, now it has " +
                           std::to_string(information.st_size));
    }
    to += length;
    position += length;
    left -= static_cast<size_t>(length);
  }
  return {};
}

void fsdp::rt::willNeed(std::span<const std::byte> bytes) {
  static const auto pageBytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto begin = reinterpret_cast<uintptr_t>(bytes.data()) & ~(pageBytes - 1);
  auto end = reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size();
  ::madvise(reinterpret_cast<void *>(begin), end - begin, MADV_WILLNEED);
}
