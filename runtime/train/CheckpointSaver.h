//===- CheckpointSaver.h - Saves checkpoints while steps go on -*- C++ -*-===//

#ifndef FSDP_RUNTIME_CHECKPOINTSAVER_H
#define FSDP_RUNTIME_CHECKPOINTSAVER_H

#include "checkpoint/CheckpointWriter.h"
#include "comm/Agreement.h"
#include "train/BackgroundWork.h"
#include "train/TrainOptions.h"

namespace fsdp::rt {

/// A complete checkpoint.
struct SavedCheckpoint {
  Manifest manifest;
  std::string path;               // on rank 0
  double milliseconds = 0;        // from the end of its step until the checkpoint was durable
  double exposedMilliseconds = 0; // part of `milliseconds` in which no step ran
};

/// A rank's part of saving to --checkpoint-dir. A save has three stages: the state is copied; each
/// rank's thread writes its files while steps go on; when all files are written, rank 0's thread
/// completes the checkpoint and removes old ones by --keep. All ranks enter each stage together.
/// Functions that return an Outcome are called by all ranks, at the same point of their runs; an
/// error of one rank's thread is an error of all ranks, and the checkpoint's files are removed.
class CheckpointSaver {
public:
  using State = BackgroundWork::State;

  /// The arguments outlive the object.
  CheckpointSaver(const PlanView &plan, const TrainOptions &options, Device &device,
                  Communicator &communicator)
      : plan(plan), options(options), device(device), communicator(communicator) {}

  /// Allocates the memory for the copy.
  Status prepare();

  /// Saves the state after step `state.step`; no step may be in flight. `state` is the same on all
  /// ranks and lacks the files. A save in progress is finished first. With --save-in-place there is
  /// no copy, and the new save is finished before this returns.
  Outcome save(Manifest state, std::byte *arena, std::byte *hostArena);

  /// The state of this rank's part of the current stage. The ranks exchange it after each step ...
  State state() const { return work.state(); }
  /// ... and call this with all their states.
  Outcome follow(std::span<const State> states);

  /// Waits for the save in progress.
  Outcome finish();

  /// Returns the last completed checkpoint, once.
  std::optional<SavedCheckpoint> takeSaved() { return std::exchange(saved, std::nullopt); }

private:
  using Clock = std::chrono::steady_clock;

  /// A save in progress.
  struct Save {
    SavedCheckpoint result;
    Clock::time_point begin;
    RankMemory memory;
    std::unique_ptr<CheckpointWriter> writer; // null from the last stage on
  };

  Outcome begin(Manifest state);
  Outcome beginCommit();
  Outcome abandon(Outcome failure);
  void complete();
  Outcome collectFiles(const CheckpointWriter &writer, Manifest &state);
  Status commit();
  bool isFirst() const { return communicator.rank() == 0; }

  const PlanView &plan;
  const TrainOptions &options;
  Device &device;
  Communicator &communicator;

  std::unique_ptr<Stream> stream;
  std::unique_ptr<Memory> staging; // the copy of the rank's state, or with --save-in-place a buffer
  std::optional<Save> current;
  std::optional<SavedCheckpoint> saved;
  BackgroundWork work; // last member: it ends before the members that it uses
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CHECKPOINTSAVER_H
