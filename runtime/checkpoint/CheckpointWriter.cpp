//===- CheckpointWriter.cpp - A rank's files of a checkpoint --------------===//

#include "checkpoint/CheckpointWriter.h"
#include "checkpoint/Crc32c.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

using namespace fsdp::rt;

// Checksums and writes are efficient in portions of this size, a multiple of AppendedFile's blocks.
static constexpr size_t kCopiedPieceBytes = size_t{4} << 20;

CheckpointWriter::CheckpointWriter(const PlanView &plan, unsigned rank, int64_t step,
                                   const RankMemory &memory, std::string folder)
    : memory(memory), step(static_cast<float>(step)), folder(std::move(folder)), rank(rank),
      parts(filesOf(plan, rank)) {
  for (uint32_t index = 0; index <= plan.optimizerGroups().size(); ++index)
    products.push_back(momentumProduct(plan.optimizer(index), step).value_or(0));
}

// The position of a file's bytes in a copy of the state: aligned to blocks, as in the file.
static size_t nextBlock(size_t position) {
  constexpr size_t kBlock = AppendedFile::kBlockBytes;
  return (position + kBlock - 1) / kBlock * kBlock;
}

Status CheckpointWriter::failed(const char *what) const {
  return Status::error("cannot write '" + folder + "/" + written.back().name + "': " + what + ": " +
                       std::strerror(errno));
}

Status CheckpointWriter::append(std::span<const std::byte> bytes) {
  if (!file.append(bytes))
    return failed("writing");
  ManifestFile &record = written.back();
  record.checksum = crc32c(record.checksum, bytes);
  record.bytes += bytes.size();
  return {};
}

Status CheckpointWriter::openNext() {
  const size_t index = written.size();
  written.push_back({checkpointFileName(rank, index, parts.size())});
  if (!file.open(folder + "/" + written.back().name))
    return failed("opening");
  part = 0;
  done = 0;
  if (copied)
    copied = nextBlock(*copied);
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
  auto copyNumber = [&](float number) {
    std::memcpy(to, reinterpret_cast<const std::byte *>(&number) + begin, bytes);
  };
  if (from.source == StoredPart::Source::StepNumber)
    copyNumber(step);
  else if (from.source == StoredPart::Source::MomentumProduct)
    copyNumber(products[from.optimizer]);
  else
    memory.stream.copy(
        to,
        (from.source == StoredPart::Source::HostArena ? memory.hostArena : memory.arena) +
            from.offset + begin,
        bytes);
}

size_t CheckpointWriter::copyBytes() const {
  size_t bytes = 0;
  for (const StoredFile &stored : parts) {
    bytes = nextBlock(bytes);
    for (const StoredPart &next : stored)
      bytes += static_cast<size_t>(next.tensor().bytes());
  }
  return bytes;
}

Status CheckpointWriter::copyState() {
  size_t position = 0;
  for (const StoredFile &stored : parts) {
    position = nextBlock(position);
    for (const StoredPart &next : stored) {
      const auto bytes = static_cast<size_t>(next.tensor().bytes());
      copyPart(next, 0, memory.staging.data() + position, bytes);
      position += bytes;
    }
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
  return file.close() ? Status() : failed("syncing");
}

Result<bool> CheckpointWriter::write(int64_t bytes) {
  for (int64_t before = 0; bytes > 0;) {
    Status status;
    if (!file.isOpen()) {
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
  return !file.isOpen() || file.sync() ? Result<bool>(false) : failed("syncing");
}
