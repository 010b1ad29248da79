//===- CheckpointLoader.cpp - A checkpoint's bytes, in pieces -------------===//

#include "checkpoint/CheckpointReader.h"
#include "checkpoint/Crc32c.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace fsdp::rt;

OpenFile::OpenFile(std::string name)
    : path(std::move(name)), descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)),
      openError(descriptor < 0 ? errno : 0) {}

OpenFile::~OpenFile() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Status OpenFile::read(uint64_t position, std::span<std::byte> to) const {
  if (openError != 0)
    return Status::error("cannot open '" + path + "': " + std::strerror(openError));
  while (!to.empty()) {
    const ssize_t length = ::pread(descriptor, to.data(), to.size(), static_cast<off_t>(position));
    if (length < 0 && errno == EINTR)
      continue;
    if (length <= 0)
      return Status::error("cannot read '" + path +
                           "': " + (length < 0 ? std::strerror(errno) : "it has become shorter"));
    to = to.subspan(static_cast<size_t>(length));
    position += static_cast<uint64_t>(length);
  }
  return {};
}

CheckpointVerifier::CheckpointVerifier(const CheckpointReader &reader, size_t share, size_t shares,
                                       std::span<std::byte> staging)
    : reader(reader), shares(shares), staging(staging),
      file(reader.manifest() ? share : reader.allFiles().size()) {}

Result<bool> CheckpointVerifier::read(int64_t bytes) {
  for (; bytes > 0 && file < reader.allFiles().size();) {
    const ManifestFile &listed = reader.allFiles()[file];
    if (!opened)
      opened.emplace(reader.filePath(file));
    auto piece = staging.first(std::min<uint64_t>(staging.size(), listed.bytes - position));
    if (Status status = opened->read(position, piece); !status.ok())
      return status;
    checksum = crc32c(checksum, piece);
    position += piece.size();
    bytes -= static_cast<int64_t>(piece.size());
    if (position < listed.bytes)
      continue;
    if (checksum != listed.checksum) {
      char text[64];
      std::snprintf(text, sizeof(text), "%08x, '%s' says %08x", checksum, kManifestName,
                    listed.checksum);
      return Status::error("'" + reader.filePath(file) + "' is damaged: its CRC-32C is " + text);
    }
    opened.reset();
    position = checksum = 0;
    file += shares;
  }
  return file >= reader.allFiles().size();
}

Result<bool> CheckpointLoader::read(int64_t bytes) {
  size_t staged = 0;
  for (; bytes > 0 && next < copies.size();) {
    const CheckpointReader::Copy &copy = copies[next];
    if (!opened)
      opened.emplace(reader.filePath(copy.file));
    auto piece = memory.staging.subspan(staged);
    piece = piece.first(std::min<size_t>(piece.size(), static_cast<size_t>(copy.bytes - done)));
    if (Status status = opened->read(copy.position + static_cast<uint64_t>(done), piece);
        !status.ok())
      return status;
    memory.stream.copy((copy.onHost ? memory.hostArena : memory.arena) + copy.offset + done,
                       piece.data(), piece.size());
    staged += piece.size();
    done += static_cast<int64_t>(piece.size());
    bytes -= static_cast<int64_t>(piece.size());
    if (done == copy.bytes) {
      done = 0;
      if (++next == copies.size() || copies[next].file != copy.file)
        opened.reset();
    }
    if (staged < memory.staging.size())
      continue;
    staged = 0;
    if (Status status = memory.stream.synchronize(); !status.ok())
      return status;
  }
  // What is staged leaves before the memory is used for something else.
  if (Status status = memory.stream.synchronize(); !status.ok())
    return status;
  return next == copies.size();
}
