//===- CheckpointLoader.cpp - Verifies and loads a checkpoint in portions -===//

#include "DType.h"
#include "checkpoint/CheckpointReader.h"
#include "checkpoint/Crc32c.h"
#include "cpu/Widen.h"

#include <algorithm>
#include <array>
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

/// Casts between f32, bf16 and f16.
static void cast(const std::byte *from, fsdp_dtype fromDtype, std::byte *to, fsdp_dtype toDtype,
                 size_t count) {
  const size_t fromBytes = elementBytes(fromDtype), toBytes = elementBytes(toDtype);
  std::array<float, 1024> values;
  for (size_t i = 0; i < count; i += values.size()) {
    const size_t length = std::min(values.size(), count - i);
    widen(from + i * fromBytes, fromDtype, values.data(), length);
    narrow(values.data(), to + i * toBytes, toDtype, length);
  }
}

Result<CheckpointLoader::Staged> CheckpointLoader::stage(const CheckpointReader::Copy &copy,
                                                         size_t used) const {
  std::span<std::byte> room = memory.staging.subspan(used);
  const auto left = static_cast<size_t>(copy.bytes - done);
  const uint64_t position = copy.position + static_cast<uint64_t>(done);
  if (!copy.isCast()) {
    std::span<std::byte> piece = room.first(std::min(room.size(), left));
    if (Status status = opened->read(position, piece); !status.ok())
      return status;
    return Staged{piece, piece.size(), piece.size()};
  }
  // Space for the stored elements and for the cast ones, wider elements first, so that both are
  // aligned.
  const size_t stored = elementBytes(copy.stored), own = elementBytes(copy.dtype);
  const size_t skipped =
      std::min((alignof(double) - used % alignof(double)) % alignof(double), room.size());
  const size_t count = std::min((room.size() - skipped) / (stored + own), left / stored);
  std::span<std::byte> first = room.subspan(skipped, count * std::max(stored, own));
  std::span<std::byte> second = room.subspan(skipped + first.size(), count * std::min(stored, own));
  auto [read, made] = stored > own ? std::pair(first, second) : std::pair(second, first);
  if (Status status = opened->read(position, read); !status.ok())
    return status;
  cast(read.data(), copy.stored, made.data(), copy.dtype, count);
  return Staged{made, read.size(), skipped + first.size() + second.size()};
}

Result<bool> CheckpointLoader::read(int64_t bytes) {
  size_t staged = 0;
  for (; bytes > 0 && next < copies.size();) {
    const CheckpointReader::Copy &copy = copies[next];
    if (!opened)
      opened.emplace(reader.filePath(copy.file));
    Result<Staged> piece = stage(copy, staged);
    if (!piece.ok())
      return piece.status();
    const int64_t offset = copy.isCast() ? done / static_cast<int64_t>(elementBytes(copy.stored)) *
                                               static_cast<int64_t>(elementBytes(copy.dtype))
                                         : done;
    memory.stream.copy((copy.onHost ? memory.hostArena : memory.arena) + copy.offset + offset,
                       piece->values.data(), piece->values.size());
    staged += piece->used;
    done += static_cast<int64_t>(piece->read);
    bytes -= static_cast<int64_t>(piece->read);
    const bool isFull = piece->read == 0; // no further element that needs a cast fits
    if (done == copy.bytes) {
      done = 0;
      if (++next == copies.size() || copies[next].file != copy.file)
        opened.reset();
    }
    if (staged < memory.staging.size() && !isFull)
      continue;
    staged = 0;
    if (Status status = memory.stream.synchronize(); !status.ok())
      return status;
  }
  // Staged copies must complete before the memory is reused.
  if (Status status = memory.stream.synchronize(); !status.ok())
    return status;
  return next == copies.size();
}
