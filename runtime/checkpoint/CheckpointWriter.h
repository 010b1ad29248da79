//===- CheckpointWriter.h - A rank's files of a checkpoint -------*- C++ -*-===//

#ifndef FSDP_RUNTIME_CHECKPOINTWRITER_H
#define FSDP_RUNTIME_CHECKPOINTWRITER_H

#include "checkpoint/AppendedFile.h"
#include "checkpoint/CheckpointFiles.h"
#include "checkpoint/Manifest.h"
#include "device/Device.h"

#include <optional>

namespace fsdp::rt {

/// Where a rank has its state, and what copies it from there and to there.
struct RankMemory {
  Stream &stream; // of the arena's device
  std::byte *arena = nullptr;
  std::byte *hostArena = nullptr; // null where the plan keeps nothing on the host
  std::span<std::byte> staging;   // memory of the host; at least one element's bytes
};

/// Writes what filesOf() says, part by part, into a folder that exists. The state must not change
/// until all is written, or copied: copyState(). Beside the state it uses `memory.staging` alone.
class CheckpointWriter {
public:
  /// The arguments outlive the object. `step` is the number that torch's optimizers keep.
  CheckpointWriter(const PlanView &plan, unsigned rank, int64_t step, const RankMemory &memory,
                   std::string folder);
  CheckpointWriter(const CheckpointWriter &) = delete;

  /// Bytes that a copy of what this rank writes takes.
  size_t copyBytes() const;
  /// Copies the state to `memory.staging`, which has as many bytes, and which write() takes it
  /// from: the state may change from now on.
  Status copyState();

  /// Writes about `bytes` more and makes them durable. True once all files are.
  Result<bool> write(int64_t bytes);

  /// After all is written.
  const std::vector<ManifestFile> &files() const { return written; }

private:
  Status openNext();
  Status append(std::span<const std::byte> bytes);
  /// Enqueues the copy of `bytes` of a part, from `begin` on.
  void copyPart(const StoredPart &from, int64_t begin, std::byte *to, size_t bytes);
  /// Puts the next bytes of the current part into the staging memory.
  Status stage();
  Status flush();
  Status closeFile();
  Status failed(const char *what) const;

  const RankMemory &memory;
  const float step;
  const std::string folder;
  const unsigned rank;
  const std::vector<StoredFile> parts; // by file

  std::vector<ManifestFile> written; // the last one is the current file's
  AppendedFile file;
  size_t part = 0;   // of the current file
  int64_t done = 0;  // bytes of the part that are staged or written
  size_t staged = 0; // bytes
  /// Where copyState() has put what comes next; none before.
  std::optional<size_t> copied;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CHECKPOINTWRITER_H
