//===- CheckpointSaver.h - Checkpoints beside the steps ----------*- C++ -*-===//

#ifndef FSDP_RUNTIME_CHECKPOINTSAVER_H
#define FSDP_RUNTIME_CHECKPOINTSAVER_H

#include "checkpoint/CheckpointWriter.h"
#include "comm/Agreement.h"
#include "train/BackgroundWork.h"
#include "train/TrainOptions.h"

namespace fsdp::rt {

/// A checkpoint that is complete.
struct SavedCheckpoint {
  Manifest manifest;
  std::string path;               // on rank 0
  double milliseconds = 0;        // from the end of its step until it was durable
  double exposedMilliseconds = 0; // of them, in which no step went on
};

/// A rank's part of saving to --checkpoint-dir. A save has three stages: the state is copied; each
/// rank's thread writes its files while steps go on; when all are written, rank 0's thread
/// completes the checkpoint and removes what --keep says. The ranks pass from one stage to the next
/// together. What returns an Outcome is called by all ranks, at the same place of their runs; an
/// error of one rank's thread is an error of all, which leaves no files behind.
class CheckpointSaver {
public:
  using State = BackgroundWork::State;

  /// The arguments outlive the object.
  CheckpointSaver(const PlanView &plan, const TrainOptions &options, Device &device,
                  Communicator &communicator)
      : plan(plan), options(options), device(device), communicator(communicator) {}

  /// Gets the memory for the copy.
  Status prepare();

  /// Saves the state after step `state.step`, of which no step is under way; `state` is the same on
  /// all ranks and lacks the files. A save that is under way is finished first. With
  /// --save-in-place there is no copy, and this one is finished, too.
  Outcome save(Manifest state, std::byte *arena, std::byte *hostArena);

  /// How this rank's part of the present stage is. The ranks tell each other after each step...
  State state() const { return work.state(); }
  /// ... and call this with all their states.
  Outcome follow(std::span<const State> states);

  /// Waits for the save that is under way.
  Outcome finish();

  /// The checkpoint that was completed last, once.
  std::optional<SavedCheckpoint> takeSaved() { return std::exchange(saved, std::nullopt); }

private:
  using Clock = std::chrono::steady_clock;

  /// A save that is under way.
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
  std::unique_ptr<Memory> staging; // holds all that the rank writes, unless --save-in-place
  std::optional<Save> current;
  std::optional<SavedCheckpoint> saved;
  BackgroundWork work; // last: it ends before what it uses
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CHECKPOINTSAVER_H
