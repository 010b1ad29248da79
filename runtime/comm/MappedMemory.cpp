//===- MappedMemory.cpp - Pages of memory, private or shared --------------===//

#include "comm/MappedMemory.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

using namespace fsdp::rt;

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
  void *address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    return systemError("cannot get " + std::to_string(bytes) + " bytes of memory");
  return MappedMemory(static_cast<std::byte *>(address), bytes);
}

Result<MappedMemory> MappedMemory::shared(const FileDescriptor &file, size_t bytes) {
  void *address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED)
    return systemError("cannot map " + std::to_string(bytes) + " bytes of shared memory");
  return MappedMemory(static_cast<std::byte *>(address), bytes);
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
