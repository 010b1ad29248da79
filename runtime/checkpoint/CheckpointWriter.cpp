//===- CheckpointWriter.cpp - A rank's files of a checkpoint --------------===//

#include "checkpoint/CheckpointWriter.h"
#include "checkpoint/Crc32c.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace fsdp::rt;

// Checksums and writes are efficient in pieces of this size.
static constexpr size_t kCopiedPieceBytes = size_t{4} << 20;

CheckpointWriter::CheckpointWriter(const PlanView &plan, unsigned rank, int64_t step,
                                   const RankMemory &memory, std::string folder)
    : memory(memory), step(static_cast<float>(step)), folder(std::move(folder)), rank(rank),
      parts(filesOf(plan, rank)) {}

CheckpointWriter::~CheckpointWriter() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Status CheckpointWriter::failed(const char *what) const {
  return Status::error("cannot write '" + folder + "/" + written.back().name + "': " + what + ": " +
                       std::strerror(errno));
}

Status CheckpointWriter::append(std::span<const std::byte> bytes) {
  ManifestFile &file = written.back();
  if (!writeAt(descriptor, bytes.data(), bytes.size(), static_cast<int64_t>(file.bytes)))
    return failed("writing");
  // The disk works while the next bytes are copied; a file system that cannot do this waits later.
  (void)::sync_file_range(descriptor, static_cast<off_t>(file.bytes),
                          static_cast<off_t>(bytes.size()), SYNC_FILE_RANGE_WRITE);
  file.checksum = crc32c(file.checksum, bytes);
  file.bytes += bytes.size();
  return {};
}

Status CheckpointWriter::openNext() {
  const size_t index = written.size();
  written.push_back({checkpointFileName(rank, index, parts.size())});
  const std::string path = folder + "/" + written.back().name;
  descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return failed("opening");
  part = 0;
  done = 0;
  const std::string header = fileHeader(parts[index]);
  return append(std::as_bytes(std::span(header)));
}

Status CheckpointWriter::flush() {
  if (copied) {
    const size_t begin = *copied, bytes = std::exchange(staged, 0);
    *copied += bytes;
    return append(memory.staging.subspan(begin, bytes));
  }
  if (Status status = memory.stream.synchronize(); !status.ok())
    return status;
  return append(memory.staging.first(std::exchange(staged, 0)));
}

void CheckpointWriter::copyPart(const StoredPart &from, int64_t begin, std::byte *to,
                                size_t bytes) {
  if (from.source == StoredPart::Source::StepNumber)
    std::memcpy(to, reinterpret_cast<const std::byte *>(&step) + begin, bytes);
  else
    memory.stream.copy(
        to,
        (from.source == StoredPart::Source::HostArena ? memory.hostArena : memory.arena) +
            from.offset + begin,
        bytes);
}

size_t CheckpointWriter::stateBytes() const {
  size_t bytes = 0;
  for (const StoredFile &file : parts)
    for (const StoredPart &next : file)
      bytes += static_cast<size_t>(next.tensor().bytes());
  return bytes;
}

Status CheckpointWriter::copyState() {
  size_t position = 0;
  for (const StoredFile &file : parts)
    for (const StoredPart &next : file) {
      const auto bytes = static_cast<size_t>(next.tensor().bytes());
      copyPart(next, 0, memory.staging.data() + position, bytes);
      position += bytes;
    }
  copied = 0;
  return memory.stream.synchronize();
}

Status CheckpointWriter::stage() {
  const StoredPart &next = parts[written.size() - 1][part];
  const int64_t left = next.tensor().bytes() - done;
  const size_t most = copied ? kCopiedPieceBytes : memory.staging.size(), room = most - staged;
  const size_t bytes = std::min(static_cast<size_t>(left), room);
  if (!copied)
    copyPart(next, done, memory.staging.data() + staged, bytes);
  staged += bytes;
  done += static_cast<int64_t>(bytes);
  if (static_cast<int64_t>(bytes) == left) {
    ++part;
    done = 0;
  }
  return staged == most ? flush() : Status();
}

Status CheckpointWriter::closeFile() {
  if (Status status = flush(); !status.ok())
    return status;
  if (::fsync(descriptor) != 0)
    return failed("syncing");
  return ::close(std::exchange(descriptor, -1)) == 0 ? Status() : failed("closing");
}

Result<bool> CheckpointWriter::write(int64_t bytes) {
  for (int64_t before = 0; bytes > 0;) {
    Status status;
    if (descriptor < 0) {
      if (written.size() == parts.size())
        return true;
      before = 0;
      status = openNext();
    } else {
      before = static_cast<int64_t>(written.back().bytes);
      status = part == parts[written.size() - 1].size() ? closeFile() : stage();
    }
    if (!status.ok())
      return status;
    bytes -= static_cast<int64_t>(written.back().bytes) - before;
  }
  if (descriptor >= 0 && ::fdatasync(descriptor) != 0)
    return failed("syncing");
  return false;
}
