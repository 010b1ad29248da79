//===- Checkpoints.h - Resumes from a checkpoint -------------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_CHECKPOINTS_H
#define FSDP_RUNTIME_CHECKPOINTS_H

#include "checkpoint/CheckpointReader.h"
#include "comm/Agreement.h"
#include "comm/MappedMemory.h"
#include "train/TrainOptions.h"

namespace fsdp::rt {

/// Record of the checkpoint from which a run was resumed.
struct ReadCheckpoint {
  int64_t step = 0;
  std::string path;
  int64_t bytes = 0;       // of its files
  double milliseconds = 0; // for verifying the files and reading the state
};

/// A rank's part of --resume, and the check of --checkpoint-dir, which is locked for this run as
/// long as the object lives. Functions that return an Outcome are called by all ranks, at the same
/// point of their runs.
class Checkpoints {
public:
  /// The arguments outlive the object.
  Checkpoints(const PlanView &plan, const TrainOptions &options, Device &device,
              Communicator &communicator)
      : plan(plan), options(options), device(device), communicator(communicator) {}

  /// Finds the checkpoint to resume from and reads its headers. Fails if --checkpoint-dir holds a
  /// later one, which would be mixed with this run's checkpoints.
  Outcome open();

  /// The checkpoint from which the run is resumed; null: the run starts from the beginning.
  const CheckpointReader *resumed() const { return reader ? &*reader : nullptr; }
  /// The number of the checkpoint's last step; 0 if the run starts from the beginning.
  int64_t step() const { return record.step; }
  /// Valid after restore().
  const ReadCheckpoint &read() const { return record; }
  /// Copies the ranks' state to their memory. Also verifies the checksums of all bytes of the
  /// checkpoint; the ranks divide this work. Releases the reader.
  Outcome restore(std::byte *arena, std::byte *hostArena);

private:
  Status prepare();
  Status readHeaders(const std::string &path);
  Status checkFolder() const;
  bool isFirst() const { return communicator.rank() == 0; }

  const PlanView &plan;
  const TrainOptions &options;
  Device &device;
  Communicator &communicator;

  FileDescriptor folderLock; // of rank 0, if the run saves: keeps other runs out
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Memory> staging;
  std::optional<CheckpointReader> reader;
  ReadCheckpoint record;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CHECKPOINTS_H
