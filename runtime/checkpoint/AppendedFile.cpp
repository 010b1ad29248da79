//===- AppendedFile.cpp - A file written from begin to end ----------------===//

#include "checkpoint/AppendedFile.h"
#include "checkpoint/SafetensorsWriter.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

using namespace fsdp::rt;

AppendedFile::~AppendedFile() {
  if (isOpen())
    ::close(descriptor);
}

bool AppendedFile::open(const std::string &path) {
  descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  size = 0;
  isDirect = false;
  canBeDirect = true;
  return isOpen();
}

bool AppendedFile::isWholeBlocks(std::span<const std::byte> bytes) const {
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  return (address | bytes.size() | static_cast<uint64_t>(size)) % kBlockBytes == 0;
}

void AppendedFile::setDirect(bool direct) {
  if (direct == isDirect)
    return;
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags >= 0 &&
      ::fcntl(descriptor, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0)
    isDirect = direct;
  else
    canBeDirect = false;
}

bool AppendedFile::append(std::span<const std::byte> bytes) {
  setDirect(canBeDirect && isWholeBlocks(bytes));
  bool isWritten = writeAt(descriptor, bytes.data(), bytes.size(), size);
  if (!isWritten && isDirect && errno == EINVAL) {
    // Some file systems accept O_DIRECT and then refuse the write.
    canBeDirect = false;
    setDirect(false);
    isWritten = writeAt(descriptor, bytes.data(), bytes.size(), size);
  }
  if (!isWritten)
    return false;
  // The disk writes while the next bytes are prepared; on a file system that cannot do this, the
  // write happens later.
  if (!isDirect)
    (void)::sync_file_range(descriptor, size, static_cast<off_t>(bytes.size()),
                            SYNC_FILE_RANGE_WRITE);
  size += static_cast<int64_t>(bytes.size());
  return true;
}

bool AppendedFile::sync() { return ::fdatasync(descriptor) == 0; }

bool AppendedFile::close() {
  const bool isSynced = ::fsync(descriptor) == 0;
  const int reason = errno;
  const bool isClosed = ::close(std::exchange(descriptor, -1)) == 0;
  if (!isSynced)
    errno = reason;
  return isSynced && isClosed;
}
