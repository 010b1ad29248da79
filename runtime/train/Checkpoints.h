//===- Checkpoints.h - Going on from a checkpoint ----------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_CHECKPOINTS_H
#define FSDP_RUNTIME_CHECKPOINTS_H

#include "checkpoint/CheckpointReader.h"
#include "train/Agreement.h"
#include "train/TrainOptions.h"

namespace fsdp::rt {

/// A rank's part of what --resume asks for, and the check of --checkpoint-dir. What returns an
/// Outcome is called by all ranks, at the same place of their runs.
class Checkpoints {
public:
  /// The arguments outlive the object.
  Checkpoints(const PlanView &plan, const TrainOptions &options, Device &device,
              Communicator &communicator)
      : plan(plan), options(options), device(device), communicator(communicator) {}

  /// Finds the checkpoint from which to go on, reads its headers and compares all its bytes with
  /// its checksums; the ranks share that. Fails if --checkpoint-dir holds a later one than that,
  /// which the run would mix with its own.
  Outcome open();

  /// The checkpoint from which the run goes on; null: it begins anew.
  const CheckpointReader *resumed() const { return reader ? &*reader : nullptr; }
  /// The number of its last step; 0 if the run begins anew.
  int64_t step() const { return resumedStep; }
  /// Copies the ranks' state to their memory, and gives up the reader.
  Outcome restore(std::byte *arena, std::byte *hostArena);

private:
  Status prepare();
  Outcome openReader(const std::string &path);
  Status readHeaders(const std::string &path);
  Status checkFolder() const;
  bool isFirst() const { return communicator.rank() == 0; }

  const PlanView &plan;
  const TrainOptions &options;
  Device &device;
  Communicator &communicator;

  std::unique_ptr<Stream> stream;
  std::unique_ptr<Memory> staging;
  std::optional<CheckpointReader> reader;
  int64_t resumedStep = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CHECKPOINTS_H
