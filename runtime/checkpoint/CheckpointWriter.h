//===- CheckpointWriter.h - A rank's files of a checkpoint -------*- C++ -*-===//

#ifndef FSDP_RUNTIME_CHECKPOINTWRITER_H
#define FSDP_RUNTIME_CHECKPOINTWRITER_H

#include "checkpoint/AppendedFile.h"
#include "checkpoint/CheckpointFiles.h"
#include "checkpoint/Manifest.h"
#include "device/Device.h"

#include <optional>

namespace fsdp::rt {

/// The memory of a rank's state, and the stream that copies from and to it.
struct RankMemory {
  Stream &stream; // of the arena's device
  std::byte *arena = nullptr;
  std::byte *hostArena = nullptr; // null if the plan keeps nothing on the host
  std::span<std::byte> staging;   // memory of the host; at least one element's bytes
};

/// Writes the files of filesOf(), part by part, into an existing folder. The state must not change
/// until all is written, or copied by copyState(). Uses no memory but `memory.staging`.
class CheckpointWriter {
public:
  /// The arguments outlive the object. `step` is the number that torch's optimizers keep.
  CheckpointWriter(const PlanView &plan, unsigned rank, int64_t step, const RankMemory &memory,
                   std::string folder);
  CheckpointWriter(const CheckpointWriter &) = delete;

  /// Bytes of a copy of the state that this rank writes.
  size_t copyBytes() const;
  /// Copies the state to `memory.staging`, which must have copyBytes(). write() reads the copy, so
  /// the state may change from now on.
  Status copyState();

  /// Writes about `bytes` more and makes them durable. True once all files are durable.
  Result<bool> write(int64_t bytes);

  /// To be called after all is written.
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
  std::vector<float> products; // momentumProduct() by the parameter's optimizer
  const std::string folder;
  const unsigned rank;
  const std::vector<StoredFile> parts; // by file

  std::vector<ManifestFile> written; // the last entry is the current file's
  AppendedFile file;
  size_t part = 0;   // of the current file
  int64_t done = 0;  // bytes of the part that are staged or written
  size_t staged = 0; // bytes
  /// Offset in the staging memory of the next bytes in the copy of copyState(); none without a
  /// copy.
  std::optional<size_t> copied;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CHECKPOINTWRITER_H
