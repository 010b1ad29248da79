//===- EventFile.h - Figures of steps for TensorBoard ------------*- C++ -*-===//
//
// An event file is a sequence of records. A record is a length, the length's checksum, an Event
// message of protobuf (tensorflow/core/util/event.proto), and the message's checksum
// (lib/io/record_writer.cc).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_EVENTFILE_H
#define FSDP_RUNTIME_EVENTFILE_H

#include "train/StepLog.h"

namespace fsdp::rt {

/// An event file of --tensorboard DIR: loss, grad_norm, lr, samples_per_s and, for tokens,
/// tokens_per_s of each step. Move-only.
class EventFile {
public:
  EventFile() = default;
  EventFile(EventFile &&other) noexcept;
  EventFile &operator=(EventFile &&other) noexcept;
  ~EventFile();

  /// Makes a new file in `folder`, and the folder if it does not exist. Readers discard the entries
  /// of earlier files for `firstStep` and later steps. Errors name the flag and the path.
  static Result<EventFile> open(const std::string &folder, int64_t firstStep);
  /// Writes the step's figures at once. Without a file: nothing.
  Status write(const StepRecord &record);
  /// The same for an evaluation: eval_loss and, for tokens, perplexity.
  Status write(const EvaluationRecord &record);

private:
  using Figure = std::pair<const char *, double>;
  Status write(int64_t step, std::span<const Figure> figures);
  Status append(const std::string &event);

  int descriptor = -1;
  std::string path;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_EVENTFILE_H
