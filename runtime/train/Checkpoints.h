//===- Checkpoints.h - Going on from a checkpoint ----------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_CHECKPOINTS_H
#define FSDP_RUNTIME_CHECKPOINTS_H

#include "checkpoint/CheckpointReader.h"
#include "comm/Agreement.h"
#include "comm/MappedMemory.h"
#include "train/TrainOptions.h"

namespace fsdp::rt {

/// How a run went on from a checkpoint.
struct ReadCheckpoint {
  int64_t step = 0;
  std::string path;
  int64_t bytes = 0;       // of its files
  double milliseconds = 0; // in which they were verified and the state was read
};

/// A rank's part of what --resume asks for, and the check of --checkpoint-dir, which is the run's
/// alone as long as this lives. What returns an
/// Outcome is called by all ranks, at the same place of their runs.
class Checkpoints {
public:
  /// The arguments outlive the object.
  Checkpoints(const PlanView &plan, const TrainOptions &options, Device &device,
              Communicator &communicator)
      : plan(plan), options(options), device(device), communicator(communicator) {}

  /// Finds the checkpoint from which to go on and reads its headers. Fails if --checkpoint-dir
  /// holds a later one than that, which the run would mix with its own.
  Outcome open();

  /// The checkpoint from which the run goes on; null: it begins anew.
  const CheckpointReader *resumed() const { return reader ? &*reader : nullptr; }
  /// The number of its last step; 0 if the run begins anew.
  int64_t step() const { return record.step; }
  /// After restore().
  const ReadCheckpoint &read() const { return record; }
  /// Copies the ranks' state to their memory. All bytes of the checkpoint are compared with its
  /// checksums, too, which the ranks share. Gives up the reader.
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
